//! Paths in the one form that rules are matched against and instances get.
//!
//! Servers differ in how they read a path: some resolve `..`, join slashes or decode letters. A rule checked on
//! one form and carried out on another can be walked around. So the forms that all agree on are resolved (RFC 3986 6.2.2),
//! and those that they do not agree on are refused.

use std::borrow::Cow;

use hyper::StatusCode;
use hyper::Uri;
use hyper::http::uri::PathAndQuery;

use crate::problem::Problem;

const DIGITS: &[u8; 16] = b"0123456789ABCDEF";

/// Changes the path of `uri` to its normal form. Returns true if it was another one.
///
/// # Errors
///
/// Fails for a path that servers may read in different ways.
pub(crate) fn normalise(uri: &mut Uri) -> Result<bool, Problem> {
    let Cow::Owned(path) = normal(uri.path()).map_err(problem)? else {
        return Ok(false);
    };
    let whole = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path,
    };
    let mut parts = std::mem::take(uri).into_parts();
    let path = PathAndQuery::try_from(whole).map_err(|_| problem("characters that no path has"))?;
    parts.path_and_query = Some(path);
    *uri = Uri::from_parts(parts).map_err(|_| problem("characters that no path has"))?;
    Ok(true)
}

fn problem(found: &str) -> Problem {
    let message = format!(
        "the path has {found}, which servers read in different ways; expected letters, digits, `-._~` and `%` with two digits between slashes"
    );
    Problem::new(StatusCode::BAD_REQUEST, "path", message)
}

/// Returns the normal form of `path`, or the part of it that has none.
fn normal(path: &str) -> Result<Cow<'_, str>, &'static str> {
    // Most paths have it already.
    if is_normal(path.as_bytes()) {
        return Ok(Cow::Borrowed(path));
    }
    if path.contains('\\') {
        return Err("a backslash");
    }
    let decoded = decoded(path)?;
    let Some(decoded) = decoded.strip_prefix('/') else {
        return Ok(Cow::Owned(decoded));
    };
    let mut segments: Vec<&str> = Vec::new();
    let mut ends_with_slash = true;
    for segment in decoded.split('/') {
        ends_with_slash = matches!(segment, "" | "." | "..");
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            // Servers in Java take the part after a semicolon away.
            _ if segment.starts_with("..;") || segment.starts_with(".;") => {
                return Err("a semicolon after dots");
            }
            segment => segments.push(segment),
        }
    }
    let mut normal = String::with_capacity(decoded.len() + 1);
    for segment in &segments {
        normal.push('/');
        normal.push_str(segment);
    }
    if ends_with_slash {
        normal.push('/');
    }
    Ok(if normal == path {
        Cow::Borrowed(path)
    } else {
        Cow::Owned(normal)
    })
}

/// Returns true if nothing in a path has another form.
fn is_normal(path: &[u8]) -> bool {
    let mut after_slash = false;
    for &byte in path {
        if matches!(byte, b'%' | b'\\') || (after_slash && matches!(byte, b'/' | b'.')) {
            return false;
        }
        after_slash = byte == b'/';
    }
    true
}

/// Decodes what needs no code, and writes the other codes in capitals.
fn decoded(path: &str) -> Result<String, &'static str> {
    let digit = |byte: Option<&u8>| byte.and_then(|&byte| (byte as char).to_digit(16));
    let mut bytes = path.as_bytes().iter();
    let mut decoded = Vec::with_capacity(path.len());
    while let Some(&byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let (Some(high), Some(low)) = (digit(bytes.next()), digit(bytes.next())) else {
            return Err("`%` without two hexadecimal digits");
        };
        let byte = (high << 4 | low) as u8;
        match byte {
            b'/' | b'\\' => return Err("an encoded slash"),
            0..0x20 | 0x7f => return Err("an encoded control character"),
            b'-' | b'.' | b'_' | b'~' => decoded.push(byte),
            _ if byte.is_ascii_alphanumeric() => decoded.push(byte),
            _ => {
                let digit = |number: u32| DIGITS.get(number as usize).copied().unwrap_or(b'0');
                decoded.extend([b'%', digit(high), digit(low)]);
            }
        }
    }
    String::from_utf8(decoded).map_err(|_| "bytes that are not UTF-8")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn forms_that_servers_agree_on_become_one() {
        for (path, expected) in [
            ("/v1/models", "/v1/models"),
            ("/", "/"),
            ("*", "*"),
            ("/v2/%72epository/x", "/v2/repository/x"),
            ("/../../metrics", "/metrics"),
            ("/functions/embed/%2e%2E/%2e./other", "/other"),
            ("/a/./b//c", "/a/b/c"),
            ("//a", "/a"),
            ("/a/b/..", "/a/"),
            ("/a/.", "/a/"),
            ("/a/", "/a/"),
            ("/..", "/"),
            ("/a/.hidden/...", "/a/.hidden/..."),
            ("/a%20b%c3%bc", "/a%20b%C3%BC"),
            ("/a%252e%252e/b", "/a%252e%252e/b"),
            ("/m:predict", "/m:predict"),
        ] {
            assert_eq!(normal(path).as_deref(), Ok(expected), "{path}");
        }
    }

    #[test]
    fn forms_that_servers_read_in_different_ways_are_refused() {
        for path in [
            "/v2/models/m%2Finfer",
            "/v2/models/m%2funload",
            "/a%5cb",
            "/a\\b",
            "/a%00",
            "/a%7F",
            "/a%0d%0ab",
            "/a%",
            "/a%2",
            "/a%zz",
            "/v2/models/..;/..;/metrics",
            "/.;x/a",
        ] {
            assert!(normal(path).is_err(), "{path}");
        }
    }

    #[test]
    fn host_and_query_stay() {
        let mut uri: Uri = "http://embed.search/a/../v1/x?y=/../%2f".parse().unwrap();
        assert_eq!(normalise(&mut uri), Ok(true));
        assert_eq!(uri, "http://embed.search/v1/x?y=/../%2f");
        assert_eq!(normalise(&mut uri), Ok(false));
        let refused = normalise(&mut "/a%2Fb".parse().unwrap()).unwrap_err();
        assert_eq!(refused.status, StatusCode::BAD_REQUEST);
        assert!(
            refused.message.contains("an encoded slash"),
            "{}",
            refused.message
        );
    }

    proptest! {
        #[test]
        fn a_normal_form_is_its_own_and_leads_nowhere_else(path in "/([./;a-c]|%2[eEfF]|%61|%5c){0,20}") {
            if let Ok(found) = normal(&path) {
                let again = normal(&found);
                prop_assert_eq!(again.as_deref(), Ok(&*found));
                prop_assert!(found.split('/').all(|segment| !matches!(segment, "." | "..")), "{}", found);
                prop_assert!(!found.contains("//") && !found.contains("%2F") && found.starts_with('/'));
            }
        }
    }
}
