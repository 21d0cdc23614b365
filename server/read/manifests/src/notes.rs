//! Notes for the user: one line for each text, with the objects that it concerns.

use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of objects that a note names; the others are counted.
const NAMED: usize = 10;

/// Collects notes, grouped by text.
#[derive(Debug, Default)]
pub struct Notes {
    groups: BTreeMap<String, BTreeSet<String>>,
    lines: BTreeSet<String>,
}

impl Notes {
    /// Adds the note `what` about `object`; one line for all objects with the same note.
    pub fn add(&mut self, what: &str, object: &str) {
        match self.groups.get_mut(what) {
            Some(objects) => {
                objects.insert(object.to_owned());
            }
            None => {
                self.groups.insert(what.to_owned(), BTreeSet::from([object.to_owned()]));
            }
        }
    }

    pub fn line(&mut self, line: impl Into<String>) {
        self.lines.insert(line.into());
    }

    /// The lines, sorted.
    #[must_use]
    pub fn into_lines(self) -> Vec<String> {
        let grouped = self.groups.into_iter().map(|(what, objects)| render(&what, &objects));
        let mut lines: Vec<String> = self.lines.into_iter().chain(grouped).collect();
        lines.sort();
        lines.dedup();
        lines
    }
}

fn render(what: &str, objects: &BTreeSet<String>) -> String {
    format!("{what}: {}", name(objects))
}

/// The first names of `objects`, and the number of the others.
#[must_use]
pub fn name(objects: &BTreeSet<String>) -> String {
    let named: Vec<&str> = objects.iter().take(NAMED).map(String::as_str).collect();
    let more = objects.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_names_ten_objects_and_counts_the_rest() {
        let mut notes = Notes::default();
        for number in (0..12).rev() {
            notes.add("left aside", &format!("pod-{number:02}"));
        }
        notes.add("left aside", "pod-03");
        notes.line("a line");
        assert_eq!(
            notes.into_lines(),
            [
                "a line",
                "left aside: pod-00, pod-01, pod-02, pod-03, pod-04, pod-05, pod-06, pod-07, pod-08, pod-09 and 2 more"
            ]
        );
    }
}
