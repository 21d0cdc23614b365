//! Colours of a plan on a terminal.

const BOLD: &str = "\u{1b}[1m";
const RED: &str = "\u{1b}[31m";
const GREEN: &str = "\u{1b}[32m";
const RESET: &str = "\u{1b}[0m";

/// The words of the first line that tell of pods without a place.
const NO_PLACE: &str = "NO PLACE";

/// `table` with bold headings, pods without a place in red, and what would help them in green. The
/// text must be escaped before.
pub fn coloured(table: &str) -> String {
    let mut section = "";
    let mut lines = Vec::new();
    for line in table.lines() {
        let heading = !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b' ');
        if heading {
            section = line;
        }
        let style = match line {
            _ if heading => Some(BOLD),
            _ if section != "PODS WITHOUT A PLACE" => None,
            _ if line.starts_with("    fits if ") => Some(GREEN),
            _ if line.starts_with("  ") && !line.starts_with("   ") => Some(RED),
            _ => None,
        };
        lines.push(match style {
            Some(style) => format!("{style}{line}{RESET}"),
            None if section.is_empty() => line.replace(NO_PLACE, &format!("{RED}{NO_PLACE}{RESET}")),
            None => line.to_owned(),
        });
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_style_is_added() {
        let table = "1 pod planned: 1 pod has NO PLACE.\n\nPODS WITHOUT A PLACE\n  default/a\n    pool p: Taints: x\n    fits if y\n\n\
                     COST\n  nothing is bought\n";
        let coloured = coloured(table);
        assert_eq!(
            coloured,
            "1 pod planned: 1 pod has \u{1b}[31mNO PLACE\u{1b}[0m.\n\n\u{1b}[1mPODS WITHOUT A PLACE\u{1b}[0m\n\
             \u{1b}[31m  default/a\u{1b}[0m\n    pool p: Taints: x\n\u{1b}[32m    fits if y\u{1b}[0m\n\n\u{1b}[1mCOST\u{1b}[0m\n  nothing is bought\n"
        );
        let plain = [BOLD, RED, GREEN, RESET].iter().fold(coloured, |text, style| text.replace(style, ""));
        assert_eq!(plain, table);
    }
}
