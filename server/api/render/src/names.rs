//! Orders and abbreviates names that end in a number: `web-2` before `web-10`, `default-1..3`.

use std::cmp::Ordering;

/// Compares names so that runs of digits count as numbers.
pub fn natural_order(one: &str, other: &str) -> Ordering {
    let (mut left, mut right) = (one, other);
    while !left.is_empty() && !right.is_empty() {
        let ((text, number, rest), (other_text, other_number, other_rest)) = (first_number(left), first_number(right));
        // Numbers without leading zeros compare by their length first.
        let by_number = || (number.len(), number).cmp(&(other_number.len(), other_number));
        match text.cmp(other_text).then_with(by_number) {
            Ordering::Equal => (left, right) = (rest, other_rest),
            decided => return decided,
        }
    }
    left.len().cmp(&right.len()).then_with(|| one.cmp(other))
}

/// The text before the first number of `name`, the number without leading zeros, and the rest.
fn first_number(name: &str) -> (&str, &str, &str) {
    let start = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
    let (text, rest) = name.split_at(start);
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (number, rest) = rest.split_at(end);
    (text, number.trim_start_matches('0'), rest)
}

/// The names in natural order; consecutive numbers after the same text as a range: `default-1..3`.
pub(crate) fn ranges(mut names: Vec<String>) -> Vec<String> {
    names.sort_by(|one, other| natural_order(one, other));
    let mut ranges: Vec<(String, Option<(String, u64)>)> = Vec::new();
    for name in names {
        let numbered = last_number(&name);
        let follows = ranges.last_mut().and_then(|(_, last)| {
            let (text, number) = last.as_mut()?;
            let (own_text, own) = numbered.as_ref()?;
            (text == own_text && number.checked_add(1) == Some(*own)).then_some(number)
        });
        match follows {
            Some(number) => *number += 1,
            None => ranges.push((name, numbered)),
        }
    }
    let render = |(first, last): (String, Option<(String, u64)>)| match last {
        Some((text, number)) if first != format!("{text}{number}") => format!("{first}..{number}"),
        _ => first,
    };
    ranges.into_iter().map(render).collect()
}

/// The text before the number at the end of `name`, and the number; `None` without a number, or if
/// it has leading zeros.
fn last_number(name: &str) -> Option<(String, u64)> {
    let text = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = &name[text.len()..];
    let plain = number == "0" || !number.starts_with('0');
    plain.then(|| Some((text.to_owned(), number.parse().ok()?)))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_are_ordered_by_value() {
        let mut names = ["web-10", "web-2", "web-1", "api-3", "web", "web-2b", "z1-2", "z1-10", "z0-9"];
        names.sort_by(|one, other| natural_order(one, other));
        assert_eq!(names, ["api-3", "web", "web-1", "web-2", "web-2b", "web-10", "z0-9", "z1-2", "z1-10"]);
    }

    #[test]
    fn consecutive_numbers_are_a_range() {
        let ranges = |names: &[&str]| ranges(names.iter().map(|name| (*name).to_owned()).collect()).join(", ");
        assert_eq!(ranges(&["default-1"]), "default-1");
        assert_eq!(ranges(&["default-2", "default-1"]), "default-1..2");
        assert_eq!(ranges(&["default-9", "default-10", "default-11", "default-4"]), "default-4, default-9..11");
        assert_eq!(ranges(&["a-1", "b-2", "node", "c-01", "c-02"]), "a-1, b-2, c-01, c-02, node");
    }
}
