//! A terminal of 80 columns.

use std::process::Command;

const COLUMNS: usize = 80;

#[test]
fn help_and_reports_fit() {
    for words in [
        "--help",
        "reproduce-tetris --help",
        "reproduce-gpu-faas --help",
        "reproduce-torpor --help",
        "reproduce-tidal --help",
        "--seconds 30 --rps 5",
        "--sweep --seconds 20 --rps 2 --random 1 --kinds bursty",
        "--dispatch --requests 4000",
        "--seconds 30 --rps 2 --policies dts --trace ../simulation/tests/data/burstgpt.csv",
        "reproduce-tetris --seconds 60 --alphas 1000000",
        "reproduce-gpu-faas --minutes 1 --seeds 1",
        "reproduce-torpor --seconds 10",
        "reproduce-tidal --seconds 60 --per-minute 100",
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_scaler-simulate"))
            .args(words.split_whitespace())
            .env("COLUMNS", COLUMNS.to_string())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{words}");
        let wide = text.lines().find(|line| line.chars().count() > COLUMNS);
        assert_eq!(wide, None, "{words}");
        assert!(text.lines().count() > 5, "{words}: {text}");
    }
}
