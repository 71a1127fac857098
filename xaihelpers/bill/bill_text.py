"""Bills in words: one with its lines, many as a table with its sum, and whether a device's day suffices."""

from xaihelpers.bill.estimate import Bill
from xaihelpers.bill.rates import Rate

DAY = 86400.0


def bill_text(bill: Bill, title: str, rate: Rate) -> str:
    """One bill in lines: what is asked, computed, read and written, time, money, and what is wrong."""
    lines = [shortened(title)]
    for line in bill.asked:
        cached = f" ({amount(line.cached)} answered already)" if line.cached else ""
        tokens = f"{amount(line.tokens_in)} tokens in, {amount(line.tokens_out)} out"
        cost = f", {line.cost:,.2f} {line.price.currency}" if line.cost else ""
        images = f", {amount(line.images)} images" if line.images else ""
        lines.append(
            f"  asks {line.model}: {amount(line.requests)} requests{cached}{images}, {tokens}, "
            f"{duration(line.seconds)}{cost}"
        )
    for one in bill.passes:
        lines.append(f"  {one.network}: {amount(one.passes)} passes ({one.what})")
    lines.append(
        f"  reads {amount(bill.images_read)} images; {bill.flops:.1e} FLOP in networks; "
        f"writes {_bytes(bill.megabytes * 1e6)}; memory {_bytes(bill.memory)} of {_bytes(rate.memory)}"
    )
    lines.append(f"  {duration(bill.seconds)} on {rate.name}, without fits and figures; costs {bill.cost}")
    if bill.missing:
        lines.append(f"  not here, counted at its published size: {', '.join(bill.missing)}")
    lines += [f"  note: {remark}" for remark in bill.remarks]
    lines += [f"  DOES NOT FIT: {what}" for what in bill.too_large]
    lines += [f"  STOPS: {problem}" for problem in bill.problems]
    return "\n".join(lines)


def shortened(title: str) -> str:
    """A title of at most 100 characters."""
    return title if len(title) <= 100 else title[:99] + "…"


def amount(value: float) -> str:
    """A count in words of at most seven characters: 950, 12,400, 3.1 M, 2.4 G."""
    for size, unit in ((1e9, " G"), (1e6, " M")):
        if value >= size:
            return f"{value / size:.1f}{unit}"
    return f"{value:,.0f}"


def duration(seconds: float) -> str:
    """Seconds in the unit that suits them: "40 s", "12 min", "3.4 h", "2.1 days"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 2 * DAY else f"{seconds / DAY:.1f} days"


def _bytes(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
