"""Tables in, estimates out: facts.json and the rows of Table 1, Figure 1 and the calibration."""
