//! Text of the input in XML.

use std::fmt;

use command::escape::is_unprintable;

/// `value` as the content of an element.
pub(super) fn text(value: &str) -> Escaped<'_> {
    Escaped(value)
}

/// `value` between the double quotes of an attribute.
pub(super) fn attribute(value: &str) -> Escaped<'_> {
    Escaped(value)
}

/// The first `most` characters of `text`, with an ellipsis if there are more.
pub(super) fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some(_) => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

/// `text` in parts of at most `most` characters, as far as its words allow.
pub(super) fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match parts.last_mut() {
            Some(part) if part.chars().count() + 1 + word.chars().count() <= most => {
                part.push(' ');
                part.push_str(word);
            }
            _ => parts.push(word.to_owned()),
        }
    }
    parts
}

/// Text with the characters of markup as references. Characters that XML 1.0 does not allow, and
/// those that reorder text, become spaces.
#[derive(Debug, Clone, Copy)]
pub(super) struct Escaped<'t>(&'t str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(is_special) {
            let (plain, special) = rest.split_at(at);
            f.write_str(plain)?;
            let mut characters = special.chars();
            f.write_str(match characters.next() {
                Some('&') => "&amp;",
                Some('<') => "&lt;",
                Some('>') => "&gt;",
                Some('"') => "&quot;",
                Some('\'') => "&#39;",
                _ => " ",
            })?;
            rest = characters.as_str();
        }
        f.write_str(rest)
    }
}

fn is_special(c: char) -> bool {
    matches!(c, '&' | '<' | '>' | '"' | '\'' | '\u{fffe}' | '\u{ffff}') || is_unprintable(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_forbidden_characters_are_replaced() {
        assert_eq!(text("a<b>&\"'\u{0}\u{202e}\n\u{ffff}é").to_string(), "a&lt;b&gt;&amp;&quot;&#39;    é");
        assert_eq!(text("").to_string(), "");
    }

    #[test]
    fn a_long_text_ends_with_an_ellipsis() {
        assert_eq!(shortened("abcde", 5), "abcde");
        assert_eq!(shortened("abcdef", 5), "abcd…");
        assert_eq!(shortened("äöüäöü", 3), "äö…");
    }

    #[test]
    fn a_line_is_wrapped_between_words() {
        assert_eq!(wrapped("ab cd ef", 5), ["ab cd", "ef"]);
        assert_eq!(wrapped("ab cd ef", 4), ["ab", "cd", "ef"]);
        assert_eq!(wrapped("äö abcdefg äö", 4), ["äö", "abcdefg", "äö"]);
        assert_eq!(wrapped("ab cd ef", 8), ["ab cd ef"]);
    }
}
