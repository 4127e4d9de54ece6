//! The table of a program's exit codes in docs/exit-codes.md, which is written from its help.

use crate::generated_page;

/// Compares the table of `program` with `help`, the text of `--help`.
pub fn check(program: &str, help: &str) {
    let (_, codes) = help.split_once("Exit codes:\n").expect("exit codes");
    let mut table = String::from("| code | meaning |\n| --- | --- |\n");
    for line in codes.lines() {
        let (code, meaning) = line.trim().split_once("  ").unwrap_or_default();
        if !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_digit()) {
            table.extend(["| ", code, " | ", meaning.trim(), " |\n"]);
        }
    }
    generated_page::check("exit-codes.md", program, &table);
}
