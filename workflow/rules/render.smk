# Needs: estimates. Makes: Table 1, the figures and the note; captions of what `snakemake --report` holds are in workflow/report/.


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


rule plot_figure2:
    input:
        facts="results/estimates/facts.json",
        times="results/estimates/figure2.csv",
    output:
        svg=report(
            "results/paper/figure2.svg",
            caption="../report/figure2.rst",
            category="Figures",
        ),
        pdf="results/paper/figure2.pdf",
        png="results/paper/figure2.png",
    log:
        "results/logs/plot_figure2.log",
    localrule: True
    conda:
        "../envs/paper.yaml"
    params:
        code=code_of("facts.py", "units.py", "render"),
    message:
        "Plot Figure 2"
    script:
        "../../scripts/plot_figure2.py"


rule plot_figure3:
    input:
        facts="results/estimates/facts.json",
        curve="results/estimates/figure3.csv",
    output:
        svg=report(
            "results/paper/figure3.svg",
            caption="../report/figure3.rst",
            category="Figures",
        ),
        pdf="results/paper/figure3.pdf",
        png="results/paper/figure3.png",
    log:
        "results/logs/plot_figure3.log",
    localrule: True
    conda:
        "../envs/paper.yaml"
    params:
        code=code_of("facts.py", "units.py", "render"),
    message:
        "Plot Figure 3"
    script:
        "../../scripts/plot_figure3.py"


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
        templates=sorted(
            os.path.relpath(path)
            for path in (ROOT / "paper").rglob("*.*")
            if path.is_file()
        ),
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
