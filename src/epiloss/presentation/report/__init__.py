"""Results as self-contained HTML pages, which load nothing and show data only as text."""

from epiloss.presentation.report.change_pages import drift_page, repair_page
from epiloss.presentation.report.pages import audit_card, audit_page, comparison_page

__all__ = ["audit_card", "audit_page", "comparison_page", "drift_page", "repair_page"]
