//! Text of others, made fit to be shown: what a terminal would obey is written out.
//!
//! Names and reasons come from clusters and clients. A control character among them could colour, clear or rename a terminal,
//! and a change of direction could make a line read otherwise than it is.

use std::borrow::Cow;
use std::io::{self, Write};

/// `text` with its control characters and changes of direction written as `\u{1b}`; line ends, too.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let shown = text
        .chars()
        .map(|c| if is_obeyed(c) { Cow::Owned(c.escape_unicode().to_string()) } else { c.to_string().into() });
    Cow::Owned(shown.collect::<Vec<Cow<'_, str>>>().concat())
}

/// Control characters (C0, DEL, C1), and the marks, embeddings, overrides and isolates of Unicode's bidirectional algorithm.
fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Passes on what is written in lines, each of them [`visible`].
pub(crate) struct Visible<W>(pub(crate) W);

impl<W: Write> Write for Visible<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // What is written here is text, in whole pieces: a formatter never parts a character.
        let text = String::from_utf8_lossy(bytes);
        let lines: Vec<Cow<'_, str>> = text.split('\n').map(visible).collect();
        self.0.write_all(lines.join("\n").as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Writes lines of a log: each call is one line, and a line end inside it is written out, so that no text begins a line of its
/// own.
pub(crate) struct VisibleLines<W>(pub(crate) W);

impl<W: Write> Write for VisibleLines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let line = text.strip_suffix('\n');
        self.0.write_all(visible(line.unwrap_or(&text)).as_bytes())?;
        self.0.write_all(if line.is_some() { b"\n" } else { b"" })?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A colour, a title with its end, a C1 introducer, an override of direction.
    const HOSTILE: &str = "a\u{1b}[31mb\u{1b}]0;pwned\u{7}c\u{9b}2Jd\u{202e}e";
    const SHOWN: &str = r"a\u{1b}[31mb\u{1b}]0;pwned\u{7}c\u{9b}2Jd\u{202e}e";

    #[test]
    fn what_a_terminal_would_obey_is_written_out_and_nothing_else_is_changed() {
        assert_eq!(visible(HOSTILE), SHOWN);
        assert_eq!(visible("x\ny\tz"), r"x\u{a}y\u{9}z");
        assert!(matches!(visible("grüße, שלום, 日本"), Cow::Borrowed(_)));
    }

    #[test]
    fn tables_keep_their_lines_and_a_log_line_stays_one() {
        let (mut table, mut log) = (Visible(Vec::new()), VisibleLines(Vec::new()));
        write!(table, "{HOSTILE}\nx\n").unwrap();
        log.write_all(format!("{HOSTILE}\nERROR made up\n").as_bytes()).unwrap();
        assert_eq!(String::from_utf8(table.0).unwrap(), format!("{SHOWN}\nx\n"));
        assert_eq!(String::from_utf8(log.0).unwrap(), format!("{SHOWN}\\u{{a}}ERROR made up\n"));
    }
}
