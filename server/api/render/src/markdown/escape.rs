//! Text of the input in Markdown, so that it is shown and never interpreted.

use command::escape::is_unprintable;

/// Characters of [`prose`] that GitHub may interpret.
const ACTIVE: &str = "\\`*_{}[]<>()#.!|~&@:$^";

/// Characters that begin an item of a list, and mean nothing later in a line.
const ACTIVE_FIRST: &str = "+-";

/// `text` as inline code, in which GitHub interprets no markup, mention, reference or address. The
/// two characters that could end the code or the cell of a table are replaced by ones that look
/// alike; no name in Kubernetes has them.
pub(super) fn code(text: &str) -> String {
    let replaced = |c: char| match c {
        '`' => 'ˋ',
        '|' => '¦',
        c if is_unprintable(c) => ' ',
        c => c,
    };
    let shown: String = text.chars().map(replaced).collect();
    if shown.trim().is_empty() { "-".to_owned() } else { format!("`{}`", shown.trim()) }
}

/// `text` as a part of a line: characters that GitHub may interpret are escaped, and those that
/// begin a mention or a reference are followed by a space without width.
pub(super) fn prose(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if is_unprintable(c) => escaped.push(' '),
            c if ACTIVE.contains(c) || (ACTIVE_FIRST.contains(c) && escaped.trim_start().is_empty()) => {
                escaped.extend(['\\', c])
            }
            c => escaped.push(c),
        }
        if matches!(c, '@' | '#') {
            escaped.push_str("&#8203;");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_code() {
        assert_eq!(code("shop/web-1"), "`shop/web-1`");
        assert_eq!(code("a`b|c\nd"), "`aˋb¦c d`");
        assert_eq!(code("<img src=x> @admin #1"), "`<img src=x> @admin #1`");
        assert_eq!(code(""), "-");
        assert_eq!(code("\n"), "-");
        // A backslash before the end of a cell is a part of the code.
        assert_eq!(code("a\\"), "`a\\`");
    }

    #[test]
    fn prose_has_no_markup_mention_or_reference() {
        assert_eq!(prose("wants a, has b"), "wants a, has b");
        assert_eq!(prose("<img> | `x`"), "\\<img\\> \\| \\`x\\`");
        assert_eq!(prose("@admin fixes #1"), "\\@&#8203;admin fixes \\#&#8203;1");
        assert_eq!(prose("[x](http://evil.com)"), "\\[x\\]\\(http\\://evil\\.com\\)");
        assert_eq!(prose("- item on-demand 1+1"), "\\- item on-demand 1+1");
        assert_eq!(prose("\n- item"), " \\- item");
        assert_eq!(prose("a\n# b"), "a \\#&#8203; b");
        assert_eq!(prose("&lt;b&gt;"), "\\&lt;b\\&gt;");
    }
}
