"""The report: every recorded number beside the paper's, the ledger of claims, in one HTML file.

    found = read_findings([results])
    page([*section(found, "alignment")], "My runs")

`findings` reads the runs, `xaihelpers.tables` sets them beside the papers' numbers; the other modules make
HTML of it. Notebook 99 puts the page together.
"""
