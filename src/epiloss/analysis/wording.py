"""Words that the printed results of this package share."""

from __future__ import annotations

from epiloss.auditing.ledger import RULES


def rule_title(rule: str) -> str:
    """Return the name of a scoring rule as it is printed.

    Examples
    --------
    >>> rule_title("brier"), rule_title("spherical")
    ('Brier score', 'rule spherical')
    """
    return RULES.get(rule, f"rule {rule}")
