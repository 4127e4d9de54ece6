//! Parts of pages with a limit on their length, which reading does not exceed.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

use super::limits::{DEPTH, NAME, RUN};
use super::page_error::PageError;

/// A name of at most `MOST` bytes, which stays on the page unless it has escapes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Name<'a, const MOST: usize = NAME>(Cow<'a, str>);

impl<const MOST: usize> Deref for Name<'_, MOST> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a, const MOST: usize> Deserialize<'de> for Name<'a, MOST> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct OfName<const MOST: usize>;

        impl<const MOST: usize> OfName<MOST> {
            fn within<E: Error>(found: usize) -> Result<(), E> {
                if found <= MOST {
                    return Ok(());
                }
                Err(E::custom(format_args!(
                    "a name of {found} bytes, expected {MOST} at most"
                )))
            }
        }

        impl<'de, const MOST: usize> Visitor<'de> for OfName<MOST> {
            type Value = Cow<'de, str>;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(to, "a name of at most {MOST} bytes")
            }

            fn visit_borrowed_str<E: Error>(self, name: &'de str) -> Result<Self::Value, E> {
                Self::within(name.len())?;
                Ok(Cow::Borrowed(name))
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
                Self::within(name.len())?;
                Ok(Cow::Owned(name.to_owned()))
            }
        }

        from.deserialize_str(OfName::<MOST>).map(Self)
    }
}

/// An entry of a list.
pub trait Entry {
    /// Name of several of them.
    const SEVERAL: &'static str;
}

/// A list of at most `MOST` entries. Reading ends at the first one beyond.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T, const MOST: usize>(Vec<T>);

impl<T, const MOST: usize> Default for List<T, MOST> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T, const MOST: usize> Deref for List<T, MOST> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<'de, T: Entry + Deserialize<'de>, const MOST: usize> Deserialize<'de> for List<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct OfList<T, const MOST: usize>(PhantomData<T>);

        impl<'de, T: Entry + Deserialize<'de>, const MOST: usize> Visitor<'de> for OfList<T, MOST> {
            type Value = Vec<T>;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(to, "a list of at most {MOST} {}", T::SEVERAL)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Vec<T>, A::Error> {
                let mut all = Vec::new();
                while let Some(entry) = entries.next_element()? {
                    if all.len() == MOST {
                        return Err(Error::custom(format_args!(
                            "more {} than {MOST}, expected that many at most",
                            T::SEVERAL
                        )));
                    }
                    all.push(entry);
                }
                Ok(all)
            }
        }

        from.deserialize_seq(OfList::<T, MOST>(PhantomData))
            .map(Self)
    }
}

/// Checks that no name, number or depth of a JSON text makes its reader take memory: a reader of JSON copies names with escapes,
/// and remembers what is open.
///
/// # Errors
///
/// The first thing that is too long or too deep.
pub(super) fn check(text: &[u8]) -> Result<(), PageError> {
    let (mut run, mut depth) = (0_usize, 0_usize);
    let (mut in_name, mut escaped) = (false, false);
    for &byte in text {
        let ends = if in_name {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            in_name = !ends;
            ends
        } else {
            match byte {
                b'"' => in_name = true,
                b'[' | b'{' => depth = depth.saturating_add(1),
                b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            matches!(
                byte,
                b'"' | b'[' | b'{' | b']' | b'}' | b',' | b':' | b' ' | b'\t' | b'\r' | b'\n'
            )
        };
        run = if ends { 0 } else { run.saturating_add(1) };
        if run > RUN {
            return Err(PageError::LongText);
        }
        if depth > DEPTH {
            return Err(PageError::Deep);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_refused_whether_they_have_escapes_or_not() {
        let read = |name: &str| serde_json::from_str::<Name<'_, 4>>(name).map(|name| name.len());
        assert_eq!(read("\"abcd\"").unwrap(), 4);
        assert_eq!(read(r#""\u00e9\n""#).unwrap(), 3);
        for name in ["\"abcde\"", r#""\u00e9\u00e9\n""#] {
            let error = read(name).unwrap_err().to_string();
            assert!(error.contains("a name of 5 bytes, expected 4"), "{error}");
        }
    }

    #[test]
    fn texts_that_a_reader_would_copy_are_refused() {
        let long = "x".repeat(RUN + 1);
        let escaped = format!(r#""{}""#, r#"\""#.repeat(RUN / 2 + 1));
        for text in [
            format!("[\"{long}\"]"),
            escaped,
            "1".repeat(RUN + 1),
            "[".repeat(DEPTH + 1),
        ] {
            check(text.as_bytes()).unwrap_err();
        }
        let names = vec![format!("\"{}\"", "[".repeat(RUN)); 3].join(",");
        let whole = format!("[{names}, \"\\\\\", {}1{}]", "[".repeat(20), "]".repeat(20));
        check(whole.as_bytes()).unwrap();
    }
}
