//! The check of a configuration.

use std::io::Write as _;

use anyhow::Result;
use serde_json::json;

use super::{Check, Format, print_json};

/// Prints the configuration in force. The verdict goes to standard error, so that the output is a
/// configuration file.
pub(super) fn run(args: &Check) -> Result<()> {
    let config = args.config.load()?;
    let stores = config.file.stores.len();
    let source = match &args.config.config {
        Some(path) => format!("`{}`", path.display()),
        None => "of the command line".to_owned(),
    };
    match args.format {
        Format::Json => print_json(json!({ "valid": true, "configuration": config.file }))?,
        Format::Text => {
            let text = config.file.to_toml()?;
            std::io::stdout().lock().write_all(text.as_bytes())?;
        }
    }
    // No one is left to tell when standard error is closed.
    let _closed = writeln!(
        std::io::stderr(),
        "configuration {source} is valid: {stores} stores, {} declared models",
        config.models.len()
    );
    Ok(())
}
