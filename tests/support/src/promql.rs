//! Enough of PromQL to see which metrics and labels an expression names.

use std::collections::BTreeSet;

/// A metric with the labels that it is selected by: name, operator, value.
#[derive(Debug, PartialEq)]
pub struct Selector {
    pub metric: String,
    pub matchers: Vec<(String, String, String)>,
}

/// Names in an expression.
#[derive(Debug, Default, PartialEq)]
pub struct Names {
    pub selectors: Vec<Selector>,
    /// Labels of `by (...)`, `on (...)` and the like.
    pub grouping: BTreeSet<String>,
}

#[derive(Debug, PartialEq)]
enum Token {
    Word(String),
    Text(String),
    Sign(String),
}

/// Panics on what it cannot read, which fails the test that asks.
pub fn names(expression: &str) -> Names {
    let tokens = tokens(expression);
    let mut names = Names::default();
    let mut rest = tokens.iter();
    while let Some(token) = rest.next() {
        match token {
            Token::Word(word) if is_metric(word) => {
                let mut selector = Selector {
                    metric: word.clone(),
                    matchers: Vec::new(),
                };
                if rest.as_slice().first() == Some(&Token::Sign("{".to_owned())) {
                    rest.next();
                    let inside: Vec<&Token> = rest
                        .by_ref()
                        .take_while(|t| **t != Token::Sign("}".to_owned()))
                        .collect();
                    selector.matchers = matchers(&inside);
                }
                names.selectors.push(selector);
            }
            Token::Word(word)
                if ["by", "without", "on", "ignoring", "group_left"].contains(&word.as_str()) =>
            {
                let inside = rest
                    .by_ref()
                    .take_while(|t| **t != Token::Sign(")".to_owned()));
                names.grouping.extend(inside.filter_map(|t| match t {
                    Token::Word(label) => Some(label.clone()),
                    _ => None,
                }));
            }
            _ => {}
        }
    }
    names
}

fn is_metric(word: &str) -> bool {
    word.starts_with("tetris_") || word.starts_with("process_")
}

fn matchers(tokens: &[&Token]) -> Vec<(String, String, String)> {
    tokens
        .split(|token| **token == Token::Sign(",".to_owned()))
        .map(|matcher| match matcher {
            [
                Token::Word(label),
                Token::Sign(operator),
                Token::Text(value),
            ] => (label.clone(), operator.clone(), value.clone()),
            other => panic!("not a matcher: {other:?}"),
        })
        .collect()
}

fn tokens(expression: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || "_:.$".contains(c);
        let len = match first {
            '"' => rest[1..].find('"').expect("a string without an end") + 2,
            c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            '=' | '!' | '<' | '>' => rest.find(|c| !"=!<>~".contains(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (token, after) = rest.split_at(len);
        match first {
            '"' => tokens.push(Token::Text(token.trim_matches('"').to_owned())),
            c if is_word(c) => tokens.push(Token::Word(token.to_owned())),
            c if c.is_whitespace() => {}
            _ => tokens.push(Token::Sign(token.to_owned())),
        }
        rest = after;
    }
    tokens
}

#[test]
fn names_are_found_and_strings_are_not_taken_for_them() {
    let metrics = names(
        r#"sum by (le, node) (rate(tetris_a_bucket{x=~"tetris_b|c",y!="}"}[5m])) / on(z) tetris_d > 1"#,
    );
    let matcher = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
    assert_eq!(
        metrics.selectors,
        [
            Selector {
                metric: "tetris_a_bucket".to_owned(),
                matchers: vec![matcher("x", "=~", "tetris_b|c"), matcher("y", "!=", "}")]
            },
            Selector {
                metric: "tetris_d".to_owned(),
                matchers: Vec::new()
            },
        ]
    );
    assert_eq!(
        metrics.grouping,
        ["le", "node", "z"].map(str::to_owned).into()
    );
}
