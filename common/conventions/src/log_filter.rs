//! The filter of a program's log: the place that it comes from, and its check.
//!
//! One rule for all programs: the option `--log` goes before the variable `TETRIS_LOG`, and that
//! before `RUST_LOG`; without any the program has a default. A filter is a level, or levels of
//! targets (`info,hyper=debug`). Where it gives no level for all other targets, they keep the
//! default: no filter but `off` turns all of the log off.

use std::fmt;

use thiserror::Error;

use crate::nearest;

/// The option that every program has.
pub const OPTION: &str = "--log";
/// Variables that are looked at without the option, in this order.
pub const VARIABLES: [&str; 2] = ["TETRIS_LOG", "RUST_LOG"];
/// Levels by name, the most silent first.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// A checked filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFilter {
    directives: String,
    origin: Origin,
}

/// The place that a filter comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The option `--log`.
    Option,
    /// One of [`VARIABLES`].
    Variable(&'static str),
    /// The program's default.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Option => OPTION,
            Self::Variable(name) => name,
            Self::Default => "the default of the log",
        })
    }
}

/// The reason a filter cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{origin}: cannot read the log filter `{filter}`: {reason}, expected a level ({}), or levels of targets such as `info,hyper=debug`{}",
    LEVELS.join(", "),
    suggestion.map(|level| format!("; did you mean `{level}`?")).unwrap_or_default()
)]
pub struct LogFilterError {
    /// The option or the variable.
    pub origin: Origin,
    /// The filter as given.
    pub filter: String,
    /// The mistake.
    pub reason: String,
    /// The level that was probably meant.
    pub suggestion: Option<&'static str>,
}

/// A mistake in a filter.
struct Mistake {
    reason: String,
    suggestion: Option<&'static str>,
}

impl LogFilter {
    /// Finds the filter: the option's, else a variable's, else `default`. `variable` looks up a
    /// variable of the environment. An empty text counts as none.
    ///
    /// # Errors
    ///
    /// [`LogFilterError`] if the first filter that is there cannot be read.
    pub fn find(
        option: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
        default: &str,
    ) -> Result<Self, LogFilterError> {
        let of_option = option.map(|text| (Origin::Option, text.to_owned()));
        let of_variables = VARIABLES
            .iter()
            .filter_map(|name| Some((Origin::Variable(name), variable(name)?)));
        let mut given = of_option.into_iter().chain(of_variables);
        let Some((origin, filter)) = given.find(|(_, text)| !text.trim().is_empty()) else {
            return Ok(Self {
                directives: default.to_owned(),
                origin: Origin::Default,
            });
        };
        match checked(&filter) {
            Ok((directives, true)) => Ok(Self { directives, origin }),
            Ok((directives, false)) => Ok(Self {
                directives: format!("{default},{directives}"),
                origin,
            }),
            Err(Mistake { reason, suggestion }) => Err(LogFilterError {
                origin,
                filter,
                reason,
                suggestion,
            }),
        }
    }

    /// Finds the filter of this process.
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find).
    pub fn of_process(option: Option<&str>, default: &str) -> Result<Self, LogFilterError> {
        let variable = |name: &str| {
            let value = std::env::var_os(name)?;
            Some(value.to_string_lossy().into_owned())
        };
        Self::find(option, variable, default)
    }

    /// All directives, the default's included.
    pub fn directives(&self) -> &str {
        &self.directives
    }

    /// The place that the filter comes from.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The filter for tracing's subscribers.
    ///
    /// # Errors
    ///
    /// [`LogFilterError`] if the subscriber refuses what the check of this module lets pass.
    #[cfg(feature = "logs")]
    pub fn env_filter(&self) -> Result<tracing_subscriber::EnvFilter, LogFilterError> {
        tracing_subscriber::EnvFilter::builder()
            .parse(&self.directives)
            .map_err(|error| LogFilterError {
                origin: self.origin,
                filter: self.directives.clone(),
                reason: error.to_string(),
                suggestion: None,
            })
    }
}

/// Checks each directive. Returns them without spaces, and true if one is a level for all targets.
fn checked(filter: &str) -> Result<(String, bool), Mistake> {
    let mut general = false;
    let mut directives = Vec::new();
    for directive in split(filter) {
        let directive = directive.trim();
        if directive.is_empty() {
            let reason = "an entry between its commas is empty".to_owned();
            return Err(Mistake {
                reason,
                suggestion: None,
            });
        }
        if is_level(directive) {
            general = true;
        } else {
            check_target(directive)?;
        }
        directives.push(directive);
    }
    Ok((directives.join(","), general))
}

fn check_target(directive: &str) -> Result<(), Mistake> {
    // Fields of a span, in brackets, can have `=` too.
    let after_span = directive.rfind(']').map_or(0, |at| at + 1);
    let (head, tail) = directive.split_at(after_span);
    let Some((target, level)) = tail.split_once('=') else {
        if !head.is_empty() && tail.is_empty() {
            return Ok(());
        }
        return Err(Mistake {
            reason: format!("`{directive}` is neither a level nor TARGET=LEVEL"),
            suggestion: nearest(directive, LEVELS),
        });
    };
    if head.is_empty() && target.trim().is_empty() {
        return Err(Mistake {
            reason: format!("`{directive}` has no target before `=`"),
            suggestion: None,
        });
    }
    if !is_level(level) {
        return Err(Mistake {
            reason: format!("`{level}` in `{directive}` is not a level"),
            suggestion: nearest(level, LEVELS),
        });
    }
    Ok(())
}

fn is_level(text: &str) -> bool {
    let name = LEVELS.iter().any(|level| level.eq_ignore_ascii_case(text));
    // The numbers that tracing knows as levels.
    name || matches!(text.as_bytes(), [b'0'..=b'5'])
}

/// Splits at commas outside of brackets.
fn split(filter: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    filter.split(move |c: char| {
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(
        option: Option<&str>,
        variables: &[(&str, &str)],
    ) -> Result<(String, Origin), LogFilterError> {
        let variable = |name: &str| {
            let variable = variables.iter().find(|(known, _)| *known == name);
            variable.map(|(_, value)| (*value).to_owned())
        };
        let filter = LogFilter::find(option, variable, "warn,quiet=error")?;
        Ok((filter.directives, filter.origin))
    }

    #[test]
    fn the_option_goes_before_the_variables_and_the_default_is_last() {
        let both = [("TETRIS_LOG", "debug"), ("RUST_LOG", "trace")];
        let of = |text: &str, origin| Ok((text.to_owned(), origin));
        assert_eq!(found(Some("info"), &both), of("info", Origin::Option));
        let tetris = Origin::Variable("TETRIS_LOG");
        assert_eq!(found(None, &both), of("debug", tetris));
        let rust = [("TETRIS_LOG", " "), ("RUST_LOG", "trace")];
        assert_eq!(
            found(None, &rust),
            of("trace", Origin::Variable("RUST_LOG"))
        );
        assert_eq!(found(None, &[]), of("warn,quiet=error", Origin::Default));
        // A mistake in a filter that is not used does not matter.
        let wrong = [("RUST_LOG", "a=b=c")];
        assert_eq!(found(Some("info"), &wrong), of("info", Origin::Option));
    }

    #[test]
    fn targets_that_a_filter_does_not_name_keep_the_default() {
        let (directives, _) = found(Some("hyper=debug"), &[]).unwrap();
        assert_eq!(directives, "warn,quiet=error,hyper=debug");
        let (directives, _) = found(Some("hyper=debug,off"), &[]).unwrap();
        assert_eq!(directives, "hyper=debug,off");
    }

    #[test]
    fn all_forms_of_directives_are_taken() {
        for text in [
            "INFO",
            "3",
            "info, hyper=debug",
            "a::b=off",
            "[span]=trace",
            "a[span{id=1,name=x}]=debug,warn",
            "a[span]",
        ] {
            assert!(found(Some(text), &[]).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_mistake_is_an_error_that_names_origin_value_forms_and_the_nearest_level() {
        for (text, reason, suggestion) in [
            (
                "inof",
                "`inof` is neither a level nor TARGET=LEVEL",
                Some("info"),
            ),
            (
                "nonsense=foo",
                "`foo` in `nonsense=foo` is not a level",
                None,
            ),
            ("a=b=c", "`b=c` in `a=b=c` is not a level", None),
            (
                "a=debgu",
                "`debgu` in `a=debgu` is not a level",
                Some("debug"),
            ),
            ("hyper", "`hyper` is neither", None),
            ("=info", "`=info` has no target", None),
            ("info,,warn", "an entry between its commas is empty", None),
            ("6", "`6` is neither", None),
        ] {
            let error = found(Some(text), &[]).unwrap_err();
            assert!(error.reason.starts_with(reason), "{error}");
            assert_eq!(error.suggestion, suggestion, "{error}");
        }
        let error = found(None, &[("RUST_LOG", "inof")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "RUST_LOG: cannot read the log filter `inof`: `inof` is neither a level nor \
             TARGET=LEVEL, expected a level (off, error, warn, info, debug, trace), or levels of \
             targets such as `info,hyper=debug`; did you mean `info`?"
        );
    }
}
