//! MIME documents of several parts, as cloud-init and nodeadm read them.

mod parse;

pub(super) use parse::{is_document, parse};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    /// Header lines without the last line feed; empty when the part has none.
    headers: String,
    /// Content, without the line feed that belongs to the next boundary.
    content: String,
}

impl Part {
    /// A script, which cloud-init runs.
    pub(super) fn shell_script(content: String) -> Self {
        Self { headers: "Content-Type: text/x-shellscript; charset=\"us-ascii\"".to_owned(), content }
    }

    /// A NodeConfig, which nodeadm reads.
    pub(super) fn node_config(content: String) -> Self {
        Self { headers: "Content-Type: application/node.eks.aws".to_owned(), content }
    }

    fn lines(&self) -> impl Iterator<Item = &str> {
        self.headers.split('\n').chain(self.content.split('\n'))
    }
}

/// The document of `parts`.
pub(super) fn write(parts: &[Part]) -> String {
    let boundary = unused_boundary(parts);
    let mut out = format!("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"{boundary}\"\n\n");
    for Part { headers, content } in parts {
        let line_end = if headers.is_empty() { "" } else { "\n" };
        out.push_str(&format!("--{boundary}\n{headers}{line_end}\n{content}\n"));
    }
    out.push_str(&format!("--{boundary}--\n"));
    out
}

/// `//`, or the first of `//1`, `//2`, … with which no line of a part begins: such a line would end
/// its part, and what follows it would be a part of its own or lost.
fn unused_boundary(parts: &[Part]) -> String {
    let suspects: Vec<&str> = parts.iter().flat_map(Part::lines).filter_map(|line| line.strip_prefix("--//")).collect();
    let is_unused = |suffix: &String| !suspects.iter().any(|line| line.starts_with(suffix.as_str()));
    // Each line excludes at most as many numbers as it has digits, so one of these is unused.
    let digits: usize = suspects.iter().map(|line| line.len()).sum();
    let numbered = (1..=digits + 1).map(|number| number.to_string());
    let suffix = std::iter::once(String::new()).chain(numbered).find(is_unused).unwrap_or_default();
    format!("//{suffix}")
}
