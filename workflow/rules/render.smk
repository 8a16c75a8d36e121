# Needs: estimates. Makes: Table 1, Figure 1 and the note.


rule plot_figure1:
    input:
        modules("render"),
        facts="results/estimates/facts.json",
        intervals="results/estimates/figure1_intervals.csv",
        fifths="results/estimates/figure1_fifths.csv",
    output:
        svg="results/paper/figure1.svg",
        pdf="results/paper/figure1.pdf",
        png="results/paper/figure1.png",
    log:
        "results/logs/plot_figure1.log",
    localrule: True
    params:
        bin_width=STUDY.analysis.histogram_bin_width,
    message:
        "Plot Figure 1"
    script:
        "../../scripts/plot_figure1.py"


rule render_note:
    input:
        modules("render"),
        facts="results/estimates/facts.json",
        table1="results/estimates/table1.csv",
        figure1_svg="results/paper/figure1.svg",
        figure1_pdf="results/paper/figure1.pdf",
        figure1_png="results/paper/figure1.png",
        templates=sorted(map(os.path.relpath, (ROOT / "paper").iterdir())),
    output:
        table1_csv="results/paper/table1.csv",
        table1_md="results/paper/table1.md",
        table1_tex="results/paper/table1.tex",
        note_md="results/paper/note.md",
        note_html="results/paper/note.html",
        note_pdf="results/paper/note.pdf",
    log:
        "results/logs/render_note.log",
    localrule: True
    message:
        "Render Table 1 and the note"
    script:
        "../../scripts/render_note.py"
