//! Buffered standard output. A closed pipe (`| head`) is not an error.

use std::io::{self, BufWriter, IsTerminal, Write};

use crate::escape::EscapingWriter;
use crate::exit::Failure;

/// Buffer size: large plans take few system calls.
const BUFFER_BYTES: usize = 256 * 1024;

/// Calls `write` with a buffered standard output.
///
/// # Errors
/// [`Failure`] when standard output fails for any reason but a closed pipe.
pub fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock());
    let written = write(&mut out).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            // The buffer still has unwritten bytes; dropping the writer would retry them.
            let _unwanted = out.into_parts();
            Ok(())
        }
        Err(error) => Err(Failure::internal(format!("cannot write to standard output: {error}"))),
        Ok(()) => Ok(()),
    }
}

/// Prints text for terminals: control characters are escaped. Machine-readable output is printed by
/// [`print`].
///
/// # Errors
/// As [`print`].
pub fn print_escaped(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    print(|out| write(&mut EscapingWriter(out)))
}

/// As [`print_escaped`]; on a terminal, and unless `NO_COLOR` is set, the whole text is passed
/// through `style`.
///
/// # Errors
/// As [`print`].
pub fn print_styled(
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    style: impl FnOnce(&str) -> String,
) -> Result<(), Failure> {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if unwanted || !io::stdout().is_terminal() {
        return print_escaped(write);
    }
    let mut escaped = Vec::new();
    write(&mut EscapingWriter(&mut escaped)).map_err(Failure::internal)?;
    print_document(&style(&String::from_utf8_lossy(&escaped)))
}

/// Prints `text` for terminals.
///
/// # Errors
/// As [`print`].
pub fn print_text(text: &str) -> Result<(), Failure> {
    print_escaped(|out| out.write_all(text.as_bytes()))
}

/// Prints `text` unchanged, as machine-readable output.
///
/// # Errors
/// As [`print`].
pub fn print_document(text: &str) -> Result<(), Failure> {
    print(|out| out.write_all(text.as_bytes()))
}
