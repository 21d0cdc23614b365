//! Standard output, buffered. A reader that goes away (`| head`) is no error of ours.

use std::io::{self, BufWriter, Write};

use super::exit::Failure;
use crate::visible::Visible;

/// Bytes that are gathered before one write: large plans take few system calls.
const BUFFER_BYTES: usize = 256 * 1024;

/// Hands a buffered standard output to `write`.
///
/// # Errors
/// [`Failure`] when standard output refuses bytes for any reason but a closed pipe.
pub(crate) fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock());
    let written = write(&mut out).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            // The buffer still holds bytes that nobody wants; dropping the writer would try them again.
            let _unwanted = out.into_parts();
            Ok(())
        }
        Err(error) => Err(Failure::internal(format!("cannot write to standard output: {error}"))),
        Ok(()) => Ok(()),
    }
}

/// Prints what people read: what a terminal would obey is written out. What programs read is printed by [`print`].
///
/// # Errors
/// As [`print`].
pub(crate) fn print_for_people(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    print(|out| write(&mut Visible(out)))
}

/// Prints `text` for people.
///
/// # Errors
/// As [`print`].
pub(crate) fn print_text(text: &str) -> Result<(), Failure> {
    print_for_people(|out| out.write_all(text.as_bytes()))
}

/// Prints `text`, which programs read, as it is.
///
/// # Errors
/// As [`print`].
pub(crate) fn print_document(text: &str) -> Result<(), Failure> {
    print(|out| out.write_all(text.as_bytes()))
}
