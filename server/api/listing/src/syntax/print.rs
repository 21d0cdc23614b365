//! Expressions as texts.

use std::fmt::{self, Display, Formatter, Write};

use super::Expression;
use super::expression::{Comparator, Literal, Node, Term};
use super::lexer::is_unquoted;

impl Display for Expression {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        node(formatter, self.root())
    }
}

impl Display for Comparator {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Has => ":",
        })
    }
}

/// `OR` binds tighter than `AND`: an `Any` needs no parentheses in an `All`.
fn node(formatter: &mut Formatter<'_>, of: &Node) -> fmt::Result {
    match of {
        Node::All(parts) => joined(formatter, parts, " AND ", |part| matches!(part, Node::All(_))),
        Node::Any(parts) => joined(formatter, parts, " OR ", |part| matches!(part, Node::All(_) | Node::Any(_))),
        Node::Not(part) => {
            formatter.write_str("NOT ")?;
            nested(formatter, part, !matches!(**part, Node::Term(_)))
        }
        Node::Term(of) => term(formatter, of),
    }
}

fn joined(formatter: &mut Formatter<'_>, parts: &[Node], operator: &str, is_nested: fn(&Node) -> bool) -> fmt::Result {
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            formatter.write_str(operator)?;
        }
        nested(formatter, part, is_nested(part))?;
    }
    Ok(())
}

fn nested(formatter: &mut Formatter<'_>, part: &Node, parentheses: bool) -> fmt::Result {
    if !parentheses {
        return node(formatter, part);
    }
    formatter.write_char('(')?;
    node(formatter, part)?;
    formatter.write_char(')')
}

fn term(formatter: &mut Formatter<'_>, term: &Term) -> fmt::Result {
    if let Some((path, comparator)) = &term.field {
        field(formatter, path)?;
        match comparator {
            Comparator::Has => formatter.write_char(':')?,
            _ => write!(formatter, " {comparator} ")?,
        }
    }
    literal(formatter, &term.literal)
}

/// A path; what follows its last dot before the first unusual character is in quotes.
fn field(formatter: &mut Formatter<'_>, path: &str) -> fmt::Result {
    let is_usual = |character| is_unquoted(character) && character != '*';
    let usual = path.find(|character| !is_usual(character)).unwrap_or(path.len());
    if usual == path.len() && !path.ends_with('.') {
        return formatter.write_str(path);
    }
    let (prefix, key) = path.split_at(path[..usual].rfind('.').map_or(0, |dot| dot + 1));
    formatter.write_str(prefix)?;
    quoted(formatter, &[key])
}

fn literal(formatter: &mut Formatter<'_>, literal: &Literal) -> fmt::Result {
    let parts: Vec<&str> = literal.0.iter().map(String::as_str).collect();
    let word = parts.join("*");
    let is_usual = |part: &&str| part.chars().all(|character| is_unquoted(character) && character != '*');
    let is_keyword = matches!(word.as_str(), "AND" | "OR" | "NOT" | "");
    // A minus sign negates, and a dot before a quotation mark or at the end is that of a path.
    if is_keyword || word.starts_with('-') || word.ends_with('.') || !parts.iter().all(is_usual) {
        return quoted(formatter, &parts);
    }
    formatter.write_str(&word)
}

fn quoted(formatter: &mut Formatter<'_>, parts: &[&str]) -> fmt::Result {
    formatter.write_char('"')?;
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            formatter.write_char('*')?;
        }
        for character in part.chars() {
            if matches!(character, '"' | '\\' | '*') {
                formatter.write_char('\\')?;
            }
            formatter.write_char(character)?;
        }
    }
    formatter.write_char('"')
}
