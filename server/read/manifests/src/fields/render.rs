//! Prints a field.

use std::fmt::Write;

use super::lookup::FieldMatch;
use super::table::{Field, Table, parent};

/// Maximum width of descriptions, in columns.
const WIDTH: usize = 78;

/// Prints `found` in the format of `kubectl explain`: kind and version, the field and its type,
/// meaning, allowed values, and the direct children, each with its meaning.
#[must_use]
pub fn render(found: &FieldMatch<'_>) -> String {
    let mut out = String::new();
    line(&mut out, "KIND", found.table.kind);
    line(&mut out, "VERSION", &found.table.api_version);
    out.push('\n');
    match found.field {
        Some(field) => one_field(&mut out, field),
        None => paragraph(&mut out, "DESCRIPTION", found.table.meaning),
    }
    if !found.children.is_empty() {
        out.push_str("\nFIELDS:\n");
        let depth = found.field.map_or(0, |field| field.path.len() + 1);
        for child in &found.children {
            child_field(&mut out, child, &child.path[depth..]);
        }
    }
    out
}

/// Prints the names and types of all fields below `found`, in the format of `kubectl explain
/// --recursive`.
#[must_use]
pub fn render_recursive(found: &FieldMatch<'_>) -> String {
    let mut out = String::new();
    line(&mut out, "KIND", found.table.kind);
    line(&mut out, "VERSION", &found.table.api_version);
    out.push_str("\nFIELDS:\n");
    found.children.iter().for_each(|child| field_with_children(&mut out, found.table, child, 1));
    out
}

fn field_with_children(out: &mut String, table: &Table, field: &Field, depth: usize) {
    let name = field.path[parent(&field.path).len()..].trim_start_matches('.');
    let _ = writeln!(out, "{:width$}{name}\t<{}>", "", field.type_name, width = 2 * depth);
    table.children(&field.path).for_each(|child| field_with_children(out, table, child, depth + 1));
}

fn one_field(out: &mut String, field: &Field) {
    line(out, "FIELD", &format!("{} <{}>", field.path, field.type_name));
    out.push('\n');
    paragraph(out, "DESCRIPTION", &field.meaning);
    paragraph(out, "DEFAULT", &field.default);
    paragraph(out, "ALLOWED", &field.allowed);
    paragraph(out, "EXAMPLE", &field.example);
}

fn child_field(out: &mut String, child: &Field, name: &str) {
    let default = if child.default.is_empty() { String::new() } else { format!(" (default: {})", child.default) };
    let _ = writeln!(out, "  {name}\t<{}>{default}", child.type_name);
    wrapped(out, &child.meaning);
    out.push('\n');
}

fn line(out: &mut String, title: &str, text: &str) {
    if !text.is_empty() {
        let _ = writeln!(out, "{:<12}{text}", format!("{title}:"));
    }
}

fn paragraph(out: &mut String, title: &str, text: &str) {
    if !text.is_empty() {
        let _ = writeln!(out, "{title}:");
        wrapped(out, text);
    }
}

/// Appends `text` to `out`, indented and wrapped at [`WIDTH`]; existing line breaks are kept.
fn wrapped(out: &mut String, text: &str) {
    for source in text.lines() {
        let indent = source.len() - source.trim_start().len();
        let mut width = 0;
        for word in source.split_whitespace() {
            if width > 0 && width + 1 + word.len() > WIDTH {
                out.push('\n');
                width = 0;
            }
            let gap = if width == 0 { 4 + indent } else { 1 };
            let _ = write!(out, "{:gap$}{word}", "");
            width += gap + word.len();
        }
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::super::{TABLES, lookup};
    use super::*;

    #[test]
    fn a_field_is_printed_with_type_default_allowed_and_example() {
        let text = render(&lookup(&TABLES, "np.spec.weight").unwrap());
        let expected = "KIND:       NodePool\nVERSION:    karpenter.sh/v1\n\nFIELD:      spec.weight <integer>\n\nDESCRIPTION:\n    \
                        Pools with a higher weight are tried first.\nDEFAULT:\n    0\nALLOWED:\n    1 to 100\nEXAMPLE:\n    10\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn all_fields_below_are_printed_with_their_depth() {
        let text = render_recursive(&lookup(&TABLES, "np.spec").unwrap());
        let lines = ["\n  disruption\t<", "\n    budgets\t<", "\n      nodes\t<", "\n  weight\t<integer>\n"];
        let places: Vec<usize> =
            lines.iter().map(|line| text.find(line).unwrap_or_else(|| panic!("{line}\n{text}"))).collect();
        assert!(places[0] < places[1] && places[1] < places[2], "{text}");
    }

    #[test]
    fn children_are_printed_by_their_last_step() {
        let text = render(&lookup(&TABLES, "np.spec.disruption").unwrap());
        assert!(
            text.contains("\nFIELDS:\n  consolidationPolicy\t<string> (default: WhenEmptyOrUnderutilized)\n    Which"),
            "{text}"
        );
        let annotations = render(&lookup(&TABLES, "np.metadata.annotations").unwrap());
        assert!(annotations.contains("\n  fleetwright.dev/min-nodes\t<string>"), "{annotations}");
    }

    #[test]
    fn no_line_is_wider_than_a_terminal_of_eighty_columns_unless_a_word_is() {
        for table in TABLES.iter() {
            for field in table.iter() {
                let text = render(&lookup(&TABLES, &format!("{}.{}", table.kind, field.path)).unwrap());
                for line in text.lines().filter(|line| line.starts_with("    ")) {
                    assert!(line.len() <= 84 || !line.trim().contains(' '), "{line}");
                }
            }
        }
    }
}
