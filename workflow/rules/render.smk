# Needs: estimates. Makes: Table 1, the figures and the note; captions of what `snakemake --report` holds are in workflow/report/.


# What gives the paper its form. Each by name, so that the workflow also works from elsewhere.
PAPER = [
    "note.md.j2",
    "note.typ",
    "note/abstract.md.j2",
    "note/calibration.md.j2",
    "note/checks.md.j2",
    "note/cite.md.j2",
    "note/claims.md.j2",
    "note/comparison.md.j2",
    "note/disclosure.md.j2",
    "note/facts.md.j2",
    "note/known.md.j2",
    "note/limitations.md.j2",
    "note/load.md.j2",
    "note/made.md.j2",
    "note/measured.md.j2",
    "note/positions.md.j2",
    "note/recommendations.md.j2",
    "note/rungs.md.j2",
    "note/share.md.j2",
    "note/speed.md.j2",
    "note/steps.md.j2",
    "note/time.md.j2",
    "note/variation.md.j2",
    "references.bib",
    "style.css",
    "table1.md.j2",
    "table1.tex.j2",
]


rule plot_figure1:
    input:
        facts="results/estimates/facts.json",
        intervals="results/estimates/figure1_intervals.csv",
        fifths="results/estimates/figure1_fifths.csv",
    output:
        svg=report(
            "results/paper/figure1.svg",
            caption="../report/figure1.rst",
            category="Figures",
        ),
        pdf="results/paper/figure1.pdf",
        png="results/paper/figure1.png",
    log:
        "results/logs/plot_figure1.log",
    localrule: True
    conda:
        "../envs/paper.yaml"
    params:
        code=code_of("facts.py", "units.py", "render"),
        bin_width=STUDY.analysis.histogram_bin_width,
    message:
        "Plot Figure 1"
    script:
        "../../scripts/plot_figure1.py"


# Figures 2 and 3.
rule plot_over_time:
    input:
        facts="results/estimates/facts.json",
        table="results/estimates/figure{number}.csv",
    output:
        svg=report(
            "results/paper/figure{number}.svg",
            caption="../report/over_time.rst",
            category="Figures",
        ),
        pdf="results/paper/figure{number}.pdf",
        png="results/paper/figure{number}.png",
    log:
        "results/logs/plot_figure{number}.log",
    wildcard_constraints:
        number="[23]",
    localrule: True
    conda:
        "../envs/paper.yaml"
    params:
        code=code_of("facts.py", "units.py", "render"),
    message:
        "Plot Figure {wildcards.number}"
    script:
        "../../scripts/plot_over_time.py"


rule render_note:
    input:
        facts="results/estimates/facts.json",
        table1="results/estimates/table1.csv",
        figure1_svg="results/paper/figure1.svg",
        figure1_pdf="results/paper/figure1.pdf",
        figure2_svg="results/paper/figure2.svg",
        figure2_pdf="results/paper/figure2.pdf",
        figure3_svg="results/paper/figure3.svg",
        figure3_pdf="results/paper/figure3.pdf",
        templates=[workflow.source_path(f"../../paper/{name}") for name in PAPER],
    output:
        table1_csv=report(
            "results/paper/table1.csv",
            caption="../report/table1.rst",
            category="Table 1",
        ),
        table1_md="results/paper/table1.md",
        table1_tex="results/paper/table1.tex",
        note_md="results/paper/note.md",
        note_html=report(
            "results/paper/note.html",
            caption="../report/note.rst",
            category="Note",
        ),
        note_pdf="results/paper/note.pdf",
    log:
        "results/logs/render_note.log",
    localrule: True
    conda:
        "../envs/paper.yaml"
    params:
        code=code_of("facts.py", "units.py", "render"),
    message:
        "Render Table 1 and the note"
    script:
        "../../scripts/render_note.py"
