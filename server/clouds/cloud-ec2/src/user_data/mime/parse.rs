//! Reads the user's own MIME document (RFC 2046, section 5.1).

use super::Part;
use crate::user_data::input::UserDataError;

/// Whether `text` begins with a header of a MIME document.
pub(in crate::user_data) fn is_document(text: &str) -> bool {
    let first = text.trim_start().lines().next().unwrap_or_default();
    let name = first.split_once(':').map_or("", |(name, _)| name);
    ["MIME-Version", "Content-Type"].iter().any(|header| header.eq_ignore_ascii_case(name))
}

/// The parts of the MIME document `text`, which has no carriage returns. What precedes the first and
/// follows the last boundary is no part.
///
/// # Errors
/// [`UserDataError::Malformed`] when it is not multipart, names no boundary, has no part, a part has
/// malformed headers, or its text does not end with a boundary.
pub(in crate::user_data) fn parse(text: &str) -> Result<Vec<Part>, UserDataError> {
    let (headers, body) = split_headers(text.trim_start()).map_err(|problem| malformed(&problem))?;
    let boundary = boundary(headers)?;
    let mut parts = Vec::new();
    let mut open: Option<Vec<&str>> = None;
    for line in body.split('\n') {
        match Delimiter::of(line, &boundary) {
            None => {
                if let Some(lines) = &mut open {
                    lines.push(line);
                }
            }
            Some(delimiter) => {
                if let Some(lines) = open.take() {
                    parts.push(part(&lines.join("\n"), parts.len() + 1)?);
                }
                if delimiter == Delimiter::Last {
                    return if parts.is_empty() { Err(malformed("it has no part")) } else { Ok(parts) };
                }
                open = Some(Vec::new());
            }
        }
    }
    // Karpenter reads a document that ends with a plain boundary, as one of its examples does.
    let ends_with_boundary = open.is_some_and(|lines| lines.iter().all(|line| line.is_empty()));
    if ends_with_boundary && !parts.is_empty() {
        return Ok(parts);
    }
    Err(malformed(&format!("the closing line --{boundary}-- is missing, so its end may be lost")))
}

fn malformed(problem: &str) -> UserDataError {
    UserDataError::Malformed { format: "MIME", problem: problem.to_owned() }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Delimiter {
    Next,
    Last,
}

impl Delimiter {
    /// The delimiter that `line` is. Other boundaries may begin with this one, so only spaces follow it.
    fn of(line: &str, boundary: &str) -> Option<Self> {
        let after = line.strip_prefix("--")?.strip_prefix(boundary)?.trim_end_matches([' ', '\t']);
        match after {
            "" => Some(Self::Next),
            "--" => Some(Self::Last),
            _ => None,
        }
    }
}

fn part(text: &str, number: usize) -> Result<Part, UserDataError> {
    let (headers, content) = split_headers(text).map_err(|problem| malformed(&format!("part {number}: {problem}")))?;
    Ok(Part { headers: headers.to_owned(), content: content.to_owned() })
}

/// Header lines, without the last line feed, and what follows the empty line after them.
fn split_headers(text: &str) -> Result<(&str, &str), String> {
    let (headers, rest) = match text.strip_prefix('\n') {
        Some(rest) => ("", rest),
        None => text.split_once("\n\n").ok_or("no empty line separates the headers from the content")?,
    };
    for (at, line) in headers.lines().enumerate() {
        let name = line.split_once(':').map_or("", |(name, _)| name);
        let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic());
        let continues = at > 0 && line.starts_with([' ', '\t']);
        if !is_name && !continues {
            return Err(format!("{line:?} is no header; headers are followed by an empty line"));
        }
    }
    Ok((headers, rest))
}

/// The boundary in the `Content-Type` of the document.
fn boundary(headers: &str) -> Result<String, UserDataError> {
    // A line that begins with a space continues the one before it.
    let unfolded = headers.replace("\n ", " ").replace("\n\t", " ");
    let content_type = unfolded.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("Content-Type").then_some(value)
    });
    let content_type = content_type.ok_or_else(|| malformed("it has no Content-Type header"))?;
    let (media_type, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
    if !media_type.trim().to_ascii_lowercase().starts_with("multipart/") {
        return Err(malformed(&format!("its Content-Type is {:?}, allowed: multipart/mixed", media_type.trim())));
    }
    let boundary = parameter(parameters, "boundary").ok_or_else(|| malformed("its Content-Type has no boundary"))?;
    // RFC 2046: at most 70 characters, the last of them no space.
    if boundary.is_empty() || boundary.len() > 70 || boundary.ends_with(' ') {
        return Err(malformed(&format!(
            "its boundary {boundary:?} is not 1 to 70 characters without a space at the end"
        )));
    }
    Ok(boundary)
}

/// The value of the parameter `wanted`, without its quotes.
fn parameter(parameters: &str, wanted: &str) -> Option<String> {
    let mut rest = parameters;
    loop {
        let (name, after) = rest.split_once('=')?;
        let after = after.trim_start();
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => unquote(quoted)?,
            None => {
                let (value, next) = after.split_once(';').unwrap_or((after, ""));
                (value.trim().to_owned(), next)
            }
        };
        if name.trim_matches([' ', '\t', ';']).eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
        rest = next;
    }
}

/// The text up to the closing quote, and what follows that.
fn unquote(quoted: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &quoted[at + 1..])),
            '\\' => value.push(characters.next()?.1),
            other => value.push(other),
        }
    }
    None
}
