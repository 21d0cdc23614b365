//! Cuts a source into documents and looks at how each begins.

/// A part of a source between document markers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk<'s> {
    /// The line of the source on which `text` begins, from 1.
    pub line: usize,
    /// The text, markers excluded.
    pub text: &'s str,
}

impl<'s> Chunk<'s> {
    /// The first line with content, and its number; `None` when there are only blanks, comments and directives.
    pub fn first_line(&self) -> Option<(usize, &'s str)> {
        let content = |line: &str| !line.is_empty() && !line.starts_with(['#', '%']);
        self.text.lines().enumerate().map(|(at, line)| (self.line + at, line.trim())).find(|(_, line)| content(line))
    }
}

/// The chunks of `text`: what stands between lines that begin with `---` or `...`. YAML allows such a line nowhere else, JSON
/// has none.
pub fn chunks(text: &str) -> Vec<Chunk<'_>> {
    let mut found = Vec::new();
    let (mut start, mut start_line, mut at) = (0, 1, 0);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if is_marker(line) {
            found.push(Chunk { line: start_line, text: &text[start..at] });
            (start, start_line) = (at + 3, number + 1);
        }
        at += line.len();
    }
    found.push(Chunk { line: start_line, text: &text[start..] });
    found
}

fn is_marker(line: &str) -> bool {
    let rest = line.strip_prefix("---").or_else(|| line.strip_prefix("..."));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

/// Why a document with this first line cannot be a Kubernetes object; looked at before any parser sees it, so that rubbish of
/// any size is refused at once.
pub fn not_an_object(first: &str) -> Option<String> {
    let head = first.get(..first.len().min(4096)).unwrap_or(first);
    if head.contains("{{") {
        return Some(format!("a template, not a manifest: {}; render it first (helm template)", shorten(head)));
    }
    if head.starts_with(['[', '-']) {
        return Some("found a list; write the objects as documents, or as items of kind: List".to_owned());
    }
    let control = head.chars().any(|c| c.is_control() && c != '\t');
    if control || !(head.contains(':') || head.starts_with(['{', '?', '&', '!', '*'])) {
        return Some(format!(
            "found {}; a Kubernetes object in YAML or JSON begins like apiVersion: v1",
            shorten(head)
        ));
    }
    None
}

/// What may have gone wrong on a line that the YAML parser refuses.
pub fn hint(line: &str) -> Option<&'static str> {
    if line.trim_start_matches(' ').starts_with('\t') {
        return Some(" (the line is indented with a tab; YAML wants spaces)");
    }
    line.contains("{{").then_some(" (the line looks like a template; render it first, for example with helm template)")
}

fn shorten(text: &str) -> String {
    let short: String = text.chars().take(40).collect();
    if short.len() < text.len() { format!("{short:?}…") } else { format!("{short:?}") }
}
