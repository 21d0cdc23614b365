//! Escapes untrusted text for terminals, logs and metrics.
//!
//! Names and reasons come from clusters and clients. Control characters could colour, clear or
//! retitle a terminal, and bidirectional overrides could reorder a line.

use std::borrow::Cow;
use std::io::{self, Write};

/// `text` with control and bidirectional characters escaped as `\u{1b}`; line ends, too.
pub fn escape_unprintable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unprintable) {
        return Cow::Borrowed(text);
    }
    let shown = text
        .chars()
        .map(|c| if is_unprintable(c) { Cow::Owned(c.escape_unicode().to_string()) } else { c.to_string().into() });
    Cow::Owned(shown.collect::<Vec<Cow<'_, str>>>().concat())
}

/// Control characters (C0, DEL, C1), and the marks, embeddings, overrides and isolates of Unicode's bidirectional algorithm.
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Writer that applies [`escape_unprintable`] to each line.
pub struct EscapingWriter<W>(pub W);

impl<W: Write> Write for EscapingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Formatters write whole pieces of text and never split a character.
        let text = String::from_utf8_lossy(bytes);
        let lines: Vec<Cow<'_, str>> = text.split('\n').map(escape_unprintable).collect();
        self.0.write_all(lines.join("\n").as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Log writer: each call is one line, and a line end inside it is escaped, so that no text can
/// forge a log line.
pub struct EscapingLineWriter<W>(pub W);

impl<W: Write> Write for EscapingLineWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        // One write, so that lines of several threads do not interleave.
        match text.strip_suffix('\n') {
            Some(line) => self.0.write_all(format!("{}\n", escape_unprintable(line)).as_bytes())?,
            None => self.0.write_all(escape_unprintable(&text).as_bytes())?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A colour, a title sequence, a C1 introducer, a direction override.
    const HOSTILE: &str = "a\u{1b}[31mb\u{1b}]0;pwned\u{7}c\u{9b}2Jd\u{202e}e";
    const SHOWN: &str = r"a\u{1b}[31mb\u{1b}]0;pwned\u{7}c\u{9b}2Jd\u{202e}e";

    #[test]
    fn only_terminal_control_characters_are_escaped() {
        assert_eq!(escape_unprintable(HOSTILE), SHOWN);
        assert_eq!(escape_unprintable("x\ny\tz"), r"x\u{a}y\u{9}z");
        assert!(matches!(escape_unprintable("grüße, שלום, 日本"), Cow::Borrowed(_)));
    }

    #[derive(Default)]
    struct Calls(Vec<Vec<u8>>);

    impl Write for Calls {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.push(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_log_line_and_its_end_are_one_write() {
        let mut log = EscapingLineWriter(Calls::default());
        log.write_all(b"event a\n").unwrap();
        log.write_all(format!("{HOSTILE}\n").as_bytes()).unwrap();
        log.write_all(b"no end").unwrap();
        let expected = [b"event a\n".to_vec(), format!("{SHOWN}\n").into_bytes(), b"no end".to_vec()];
        assert_eq!(log.0.0, expected);
    }

    #[test]
    fn tables_keep_their_lines_and_a_log_line_stays_one_line() {
        let (mut table, mut log) = (EscapingWriter(Vec::new()), EscapingLineWriter(Vec::new()));
        write!(table, "{HOSTILE}\nx\n").unwrap();
        log.write_all(format!("{HOSTILE}\nERROR made up\n").as_bytes()).unwrap();
        assert_eq!(String::from_utf8(table.0).unwrap(), format!("{SHOWN}\nx\n"));
        assert_eq!(String::from_utf8(log.0).unwrap(), format!("{SHOWN}\\u{{a}}ERROR made up\n"));
    }
}
