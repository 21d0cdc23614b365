//! Looks up the fields of an expression, and reads its literals by the fields' types.

use super::pattern::Pattern;
use super::predicate::{Inequality, NumberCheck, Predicate, TextCheck};
use crate::error::quoted;
use crate::schema::{Getter, NamedField, nearest};
use crate::syntax::{Comparator, Literal, Node, Term};
use crate::{Argument, ListError, Schema};

pub(super) fn predicate<R>(node: &Node, schema: &Schema<R>) -> Result<Predicate<R>, ListError> {
    let all = |parts: &[Node]| parts.iter().map(|part| predicate(part, schema)).collect::<Result<Vec<_>, _>>();
    match node {
        Node::All(parts) => all(parts).map(Predicate::All),
        Node::Any(parts) => all(parts).map(Predicate::Any),
        Node::Not(part) => Ok(negated(predicate(part, schema)?)),
        Node::Term(term) => of_term(term, schema),
    }
}

fn of_term<R>(term: &Term, schema: &Schema<R>) -> Result<Predicate<R>, ListError> {
    let Some((path, comparator)) = &term.field else {
        return Ok(Predicate::Name(schema.name(), text_has(&term.literal)));
    };
    let restriction = Restriction { path, position: term.position, comparator: *comparator, literal: &term.literal };
    let positive = if path == schema.name_path() {
        Predicate::Name(schema.name(), restriction.text(text_has)?)
    } else {
        let field = schema.find(path).ok_or_else(|| restriction.unknown(schema))?;
        restriction.of_field(&field)?
    };
    Ok(if *comparator == Comparator::NotEqual { negated(positive) } else { positive })
}

fn negated<R>(predicate: Predicate<R>) -> Predicate<R> {
    Predicate::Not(Box::new(predicate))
}

/// `:` of a text.
fn text_has(literal: &Literal) -> TextCheck {
    match literal.plain() {
        Some(part) => TextCheck::Contains(part.into()),
        None => text_equals(literal),
    }
}

/// `=` of a text, and `:` of a map's value.
fn text_equals(literal: &Literal) -> TextCheck {
    if literal.is_wildcard() { TextCheck::Present } else { TextCheck::Matches(Pattern::new(literal)) }
}

/// A field with a comparator and a literal.
struct Restriction<'t> {
    path: &'t str,
    position: usize,
    comparator: Comparator,
    literal: &'t Literal,
}

impl Restriction<'_> {
    /// The predicate, where `!=` is `=`.
    fn of_field<R>(&self, field: &NamedField<'_, R>) -> Result<Predicate<R>, ListError> {
        match (field.getter, field.key) {
            (Getter::Text(get), _) => Ok(Predicate::Text(get, self.text(text_has)?)),
            (Getter::Int(get), _) => Ok(Predicate::Int(get, self.number(|text| text.parse().ok(), "a whole number")?)),
            (Getter::Timestamp(get), _) => {
                let expected = "a time as RFC 3339 describes it, for example \"2026-01-31T08:00:00Z\"";
                Ok(Predicate::Timestamp(get, self.number(nanos_of, expected)?))
            }
            (Getter::Bool(get), _) => Ok(Predicate::Bool(get, self.boolean()?)),
            (Getter::Enum(values, get), _) => Ok(Predicate::Text(get, self.enumerated(values)?)),
            (Getter::Texts(get), _) => Ok(Predicate::Element(get, self.element()?)),
            (Getter::Map(get), Some(key)) => Ok(Predicate::Entry(get, key.into(), self.text(text_equals)?)),
            (Getter::Map(get), None) => Ok(Predicate::Entry(get, self.key()?, TextCheck::Present)),
        }
    }

    fn text(&self, has: fn(&Literal) -> TextCheck) -> Result<TextCheck, ListError> {
        let Some(inequality) = Inequality::of(self.comparator) else {
            return Ok(if self.comparator == Comparator::Has { has(self.literal) } else { text_equals(self.literal) });
        };
        let bound = self.literal.plain().ok_or_else(|| self.wrong_type("a text without a wildcard"))?;
        Ok(TextCheck::Compares(inequality, bound.into()))
    }

    fn number(&self, parse: fn(&str) -> Option<i128>, expected: &'static str) -> Result<NumberCheck, ListError> {
        if self.is_presence() {
            return Ok(NumberCheck::Present);
        }
        let value = self.literal.plain().and_then(parse).ok_or_else(|| self.wrong_type(expected))?;
        Ok(match Inequality::of(self.comparator) {
            Some(inequality) => NumberCheck::Compares(inequality, value),
            None => NumberCheck::Equals(value),
        })
    }

    fn boolean(&self) -> Result<Option<bool>, ListError> {
        self.no_inequality("a boolean has no order: use = or !=")?;
        match self.literal.plain() {
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            _ if self.is_presence() => Ok(None),
            _ => Err(self.wrong_type("true or false")),
        }
    }

    fn enumerated(&self, values: &'static [&'static str]) -> Result<TextCheck, ListError> {
        self.no_inequality("an enum has no order: use = or !=")?;
        if self.is_presence() {
            return Ok(TextCheck::Present);
        }
        match self.literal.plain() {
            Some(text) if values.contains(&text) => Ok(text_equals(self.literal)),
            _ => {
                let nearest = nearest(&self.written(), values.iter().copied());
                Err(self.literal_type("one of the enum's values", nearest))
            }
        }
    }

    fn element(&self) -> Result<Option<Pattern>, ListError> {
        if self.comparator != Comparator::Has {
            return Err(self.unsupported("it is repeated: use : for rows with an element"));
        }
        Ok((!self.literal.is_wildcard()).then(|| Pattern::new(self.literal)))
    }

    fn key(&self) -> Result<Box<str>, ListError> {
        if self.comparator != Comparator::Has {
            return Err(self.unsupported("it is a map: write a dot and the key after it, or use : for rows with a key"));
        }
        self.literal.plain().map(Into::into).ok_or_else(|| self.wrong_type("a key without a wildcard"))
    }

    /// Whether it is `field:*`.
    fn is_presence(&self) -> bool {
        self.comparator == Comparator::Has && self.literal.is_wildcard()
    }

    fn no_inequality(&self, problem: &'static str) -> Result<(), ListError> {
        if Inequality::of(self.comparator).is_some() { Err(self.unsupported(problem)) } else { Ok(()) }
    }

    fn unknown<R>(&self, schema: &Schema<R>) -> ListError {
        ListError::UnknownField {
            argument: Argument::Filter,
            field: quoted(self.path),
            position: self.position,
            nearest: schema.nearest(self.path),
        }
    }

    fn unsupported(&self, problem: &'static str) -> ListError {
        let (field, position) = (quoted(self.path), self.position);
        ListError::Unsupported { argument: Argument::Filter, field, position, problem }
    }

    fn wrong_type(&self, expected: &'static str) -> ListError {
        self.literal_type(expected, None)
    }

    fn literal_type(&self, expected: &'static str, nearest: Option<String>) -> ListError {
        let (field, position) = (quoted(self.path), self.position);
        ListError::LiteralType { field, position, literal: quoted(&self.written()), expected, nearest }
    }

    fn written(&self) -> String {
        self.literal.0.join("*")
    }
}

/// Nanoseconds since 1970 of a time with an offset.
fn nanos_of(text: &str) -> Option<i128> {
    text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_nanosecond)
}
