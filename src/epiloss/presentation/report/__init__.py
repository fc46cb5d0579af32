"""Results as pages: one file each, which needs no network and shows data as text only."""

from epiloss.presentation.report.change_pages import drift_page, repair_page
from epiloss.presentation.report.pages import audit_card, audit_page, comparison_page

__all__ = ["audit_card", "audit_page", "comparison_page", "drift_page", "repair_page"]
