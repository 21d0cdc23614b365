//! Whether a YAML text has comments.

/// Whether `text` has a comment outside of quotes and block scalars. JSON has none.
pub(super) fn has_comment(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    // Lines of a block scalar are indented deeper than the line that begins it.
    let mut block: Option<usize> = None;
    for line in text.lines() {
        let content = line.trim_start();
        let indentation = line.len() - content.len();
        if content.is_empty() || block.is_some_and(|of| indentation > of) {
            continue;
        }
        block = None;
        let (code, comment) = split_comment(content);
        if comment {
            return true;
        }
        if begins_block(code) {
            // The items of a list are indented by their dash.
            block = Some(indentation);
        }
    }
    false
}

/// `line` without its comment, and whether it has one: a `#` outside of quotes, at the beginning or
/// after white space.
fn split_comment(line: &str) -> (&str, bool) {
    let (mut quote, mut before) = (None, ' ');
    for (at, letter) in line.char_indices() {
        match quote {
            Some(open) if letter == open && before != '\\' => quote = None,
            Some(_) => {}
            None if letter == '#' && before.is_whitespace() => return (&line[..at], true),
            // A quote inside a word is an apostrophe.
            None if matches!(letter, '"' | '\'') && !before.is_alphanumeric() => quote = Some(letter),
            None => {}
        }
        before = letter;
    }
    (line, false)
}

/// Whether a block scalar begins at the end of `line`: `userData: |`, `- >-`.
fn begins_block(line: &str) -> bool {
    let last = line.split_whitespace().last().unwrap_or_default();
    let modifiers = last.strip_prefix(['|', '>']);
    modifiers.is_some_and(|rest| rest.chars().all(|c| matches!(c, '+' | '-') || c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_found_outside_of_quotes_and_block_scalars() {
        for text in ["# head\na: b\n", "a: b # why\n", "a:\n  # inside\n  b: c\n", "a: |\n  x\n# after\n"] {
            assert!(has_comment(text.as_bytes()), "{text}");
        }
        for text in [
            "a: b\n",
            "a: 'b # c'\n",
            "a: \"b # c\"\n",
            "a: b#c\n",
            "userData: |\n  #!/bin/bash\n\n  # not a comment\n  x\nb: c\n",
            "a: it's\n",
            "{\"a\": \"#\"}",
        ] {
            assert!(!has_comment(text.as_bytes()), "{text}");
        }
    }
}
