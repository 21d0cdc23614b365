//! The line of a field in the text that it was read from, for editors.

use super::split::{self, Chunk};
use super::{Source, decode};

/// The line of the field `path` in document `number` of `source`, from 1. The line of the nearest
/// object around it when the field is absent or written in flow style; `None` when the source has no
/// such document.
#[must_use]
pub fn line_of(source: &Source, number: usize, path: &str) -> Option<usize> {
    let text = decode(&source.bytes).ok()?;
    let mut documents = split::chunks(text).flat_map(documents);
    let document = documents.nth(number.checked_sub(1)?)?;
    let (first, _) = document.first_line()?;
    let lines: Vec<Line<'_>> =
        document.text.lines().enumerate().filter_map(|(at, line)| Line::of(document.line + at, line)).collect();
    Some(descend(lines, &steps(path)).unwrap_or(first))
}

/// The documents of a chunk, as they are counted: one of YAML, or each value of JSON.
fn documents(chunk: Chunk<'_>) -> Vec<Chunk<'_>> {
    match chunk.first_line() {
        None => Vec::new(),
        Some((_, first)) if first.starts_with('{') && !first.starts_with("{{") => {
            split::json_values(&chunk).filter_map(Result::ok).collect()
        }
        Some(_) => vec![chunk],
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step<'p> {
    Field(&'p str),
    Item(usize),
}

/// The steps of a path such as `spec.containers[0].resources.limits["nvidia.com/gpu"]`.
fn steps(path: &str) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        rest = rest.strip_prefix('.').unwrap_or(rest);
        if let Some((inner, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            steps.push(inner.parse().map_or_else(|_| Step::Field(inner.trim_matches('"')), Step::Item));
            rest = after;
            continue;
        }
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        steps.push(Step::Field(&rest[..end]));
        rest = &rest[end..];
    }
    steps
}

#[derive(Debug, Clone, Copy)]
struct Line<'t> {
    number: usize,
    indentation: usize,
    content: &'t str,
}

impl<'t> Line<'t> {
    fn of(number: usize, line: &'t str) -> Option<Self> {
        let content = line.trim_start();
        let blank = content.is_empty() || content.starts_with('#');
        (!blank).then_some(Self { number, indentation: line.len() - content.len(), content })
    }

    fn is_item(&self) -> bool {
        self.content == "-" || self.content.starts_with("- ")
    }

    /// Whether the line begins the field `name`.
    fn begins(&self, name: &str) -> bool {
        let key = self.content.split_once(':').map(|(key, _)| key.trim().trim_matches(['"', '\'']));
        key == Some(name)
    }

    /// The line without the dash of an item.
    fn without_dash(self) -> Self {
        let content = self.content[1..].trim_start();
        Self { indentation: self.indentation + self.content.len() - content.len(), content, ..self }
    }
}

/// The line of the last of `steps` that `lines` have.
fn descend(mut lines: Vec<Line<'_>>, steps: &[Step<'_>]) -> Option<usize> {
    let mut found = None;
    for step in steps {
        let Some(level) = lines.iter().map(|line| line.indentation).min() else { break };
        let here = |line: &Line<'_>| line.indentation == level;
        let start = match step {
            Step::Field(name) => lines.iter().position(|line| here(line) && !line.is_item() && line.begins(name)),
            Step::Item(index) => {
                let items = lines.iter().enumerate().filter(|(_, line)| here(line) && line.is_item());
                items.map(|(at, _)| at).nth(*index)
            }
        };
        let Some(start) = start else { break };
        found = Some(lines[start].number);
        // The items of a list may have the indentation of its field.
        let of_field = matches!(step, Step::Field(_));
        let inside = |line: &&Line<'_>| line.indentation > level || (of_field && line.is_item());
        let mut below: Vec<Line<'_>> = lines[start + 1..].iter().take_while(inside).copied().collect();
        if !of_field {
            below.insert(0, lines[start].without_dash());
        }
        lines = below;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# two documents
apiVersion: v1
kind: Pod
metadata:
  name: a
---
apiVersion: v1
kind: Pod
metadata: {name: b}
spec:
  # the containers
  containers:
  - name: x
    resources:
      requests:
        cpu: 0,5
  - image: y
    name: Y
  nodeSelector:
    \"example.com/a\": 5
";

    fn line(number: usize, path: &str) -> Option<usize> {
        line_of(&Source { name: "a.yaml".to_owned(), bytes: TEXT.into() }, number, path)
    }

    #[test]
    fn a_field_is_found_by_its_path() {
        assert_eq!(line(1, "metadata.name"), Some(5));
        assert_eq!(line(2, "spec.containers[0].resources.requests.cpu"), Some(16));
        assert_eq!(line(2, "spec.containers[1].name"), Some(18));
        assert_eq!(line(2, "spec.nodeSelector[\"example.com/a\"]"), Some(20));
    }

    #[test]
    fn the_object_around_it_stands_for_a_field_that_is_absent_or_in_flow_style() {
        assert_eq!(line(2, "metadata.name"), Some(9));
        assert_eq!(line(2, "spec.containers[1].resources"), Some(17));
        assert_eq!(line(2, "spec.containers[7].name"), Some(12));
        assert_eq!(line(2, ""), Some(7));
        assert_eq!(line(3, "spec"), None);
    }

    #[test]
    fn values_of_json_are_documents() {
        let source = Source { name: "-".to_owned(), bytes: b"{\"kind\": \"A\"}\n{\n  \"kind\": \"B\"\n}\n".to_vec() };
        assert_eq!(line_of(&source, 1, ""), Some(1));
        assert_eq!(line_of(&source, 2, "metadata"), Some(2));
    }
}
