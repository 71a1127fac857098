"""The report: every recorded number beside the paper's, the ledger of claims, in one HTML file.

    found = read_findings([results])
    names, numbers = beside(found.recorded, "alignment", "1")
    page([*section(found, "alignment")], "My runs")

`findings` reads the runs, `printed_tables` the papers' numbers, `joined_rows` sets both side by side; the
other modules make HTML of it. Notebook 99 puts the page together.
"""
