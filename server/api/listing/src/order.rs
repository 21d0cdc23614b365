//! The order of rows.

use std::cmp::Ordering;
use std::fmt;

use crate::error::quoted;
use crate::schema::{Getter, MapGetter, Schema};
use crate::{Argument, ListError};

/// The most bytes of an order.
const MAX_BYTES: usize = 1024;

/// The most fields of an order.
const MAX_FIELDS: usize = 8;

/// A value by which rows are ordered. Rows without a value are first; `false` is before `true`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SortValue<'r> {
    Absent,
    Bool(bool),
    /// Also a timestamp, and the place of an enum's value.
    Int(i64),
    Text(&'r str),
}

/// The place of a row in an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SortKey<'r> {
    pub(crate) values: Vec<SortValue<'r>>,
    pub(crate) name: &'r str,
}

/// An order of rows of type `R`: by fields, then by the name.
pub struct OrderBy<R> {
    fields: Vec<OrderField<R>>,
    name: fn(&R) -> &str,
}

struct OrderField<R> {
    getter: SortGetter<R>,
    is_descending: bool,
}

enum SortGetter<R> {
    Name(fn(&R) -> &str),
    Text(fn(&R) -> Option<&str>),
    Int(fn(&R) -> Option<i64>),
    Bool(fn(&R) -> Option<bool>),
    Enum(&'static [&'static str], fn(&R) -> Option<&str>),
    Entry(MapGetter<R>, Box<str>),
}

impl<R> OrderBy<R> {
    /// The order that `text` is in the fields of `schema`: fields with commas between them, each with `desc` after it for
    /// the descending order. An empty text is the order by name.
    ///
    /// # Errors
    ///
    /// `text` is too long, names a field that `schema` does not have, twice, or that has no order.
    pub fn parse(text: &str, schema: &Schema<R>) -> Result<Self, ListError> {
        if text.len() > MAX_BYTES {
            let argument = Argument::OrderBy;
            return Err(ListError::TooLong { argument, length: text.len(), limit: MAX_BYTES });
        }
        let mut order = Self { fields: Vec::new(), name: schema.name() };
        if text.trim().is_empty() {
            return Ok(order);
        }
        let mut seen = Vec::new();
        let mut position = 1;
        for part in text.split(',') {
            let start = position + part.chars().take_while(|character| character.is_whitespace()).count();
            let (path, is_descending) = path_and_direction(part, start)?;
            if seen.contains(&path) {
                return Err(syntax(start, format!("{} is there twice", quoted(path))));
            }
            if seen.len() == MAX_FIELDS {
                return Err(ListError::TooManyTerms { argument: Argument::OrderBy, limit: MAX_FIELDS });
            }
            seen.push(path);
            order.fields.push(OrderField { getter: SortGetter::new(path, start, schema)?, is_descending });
            position += part.chars().count() + 1;
        }
        Ok(order)
    }

    /// The order of two rows. Different rows are never equal, as their names differ.
    #[must_use]
    pub fn compare(&self, left: &R, right: &R) -> Ordering {
        let by_fields = self.fields.iter().map(|field| field.compare(field.getter.get(left), field.getter.get(right)));
        first_difference(by_fields).then_with(|| (self.name)(left).cmp((self.name)(right)))
    }

    pub(crate) fn compare_with_key(&self, row: &R, key: &SortKey<'_>) -> Ordering {
        let pairs = self.fields.iter().zip(&key.values);
        first_difference(pairs.map(|(field, value)| field.compare(field.getter.get(row), *value)))
            .then_with(|| (self.name)(row).cmp(key.name))
    }

    pub(crate) fn key<'r>(&self, row: &'r R) -> SortKey<'r> {
        SortKey { values: self.fields.iter().map(|field| field.getter.get(row)).collect(), name: (self.name)(row) }
    }

    /// Whether rows in this order can have `key`.
    pub(crate) fn has_types_of(&self, key: &SortKey<'_>) -> bool {
        self.fields.len() == key.values.len()
            && self.fields.iter().zip(&key.values).all(|(field, value)| field.getter.is_type_of(*value))
    }

    /// Whether rows in ascending order of their names are in this order.
    #[must_use]
    pub fn is_by_name(&self) -> bool {
        match self.fields.first() {
            None => true,
            Some(first) => matches!(first.getter, SortGetter::Name(_)) && !first.is_descending,
        }
    }
}

impl<R> fmt::Debug for OrderBy<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "OrderBy({} fields)", self.fields.len())
    }
}

impl<R> OrderField<R> {
    fn compare(&self, left: SortValue<'_>, right: SortValue<'_>) -> Ordering {
        if self.is_descending { right.cmp(&left) } else { left.cmp(&right) }
    }
}

impl<R> SortGetter<R> {
    fn new(path: &str, position: usize, schema: &Schema<R>) -> Result<Self, ListError> {
        if path == schema.name_path() {
            return Ok(Self::Name(schema.name()));
        }
        let argument = Argument::OrderBy;
        let Some(field) = schema.find(path) else {
            let nearest = schema.nearest(path);
            return Err(ListError::UnknownField { argument, field: quoted(path), position, nearest });
        };
        match (field.getter, field.key) {
            (Getter::Text(get), _) => Ok(Self::Text(get)),
            (Getter::Int(get) | Getter::Timestamp(get), _) => Ok(Self::Int(get)),
            (Getter::Bool(get), _) => Ok(Self::Bool(get)),
            (Getter::Enum(values, get), _) => Ok(Self::Enum(values, get)),
            (Getter::Map(get), Some(key)) => Ok(Self::Entry(get, key.into())),
            (Getter::Map(_) | Getter::Texts(_), _) => {
                let problem = "it has many values and no order: name a field with one value, or a key of a map";
                Err(ListError::Unsupported { argument, field: quoted(path), position, problem })
            }
        }
    }

    fn get<'r>(&self, row: &'r R) -> SortValue<'r> {
        match self {
            Self::Name(get) => SortValue::Text(get(row)),
            Self::Text(get) => get(row).map_or(SortValue::Absent, SortValue::Text),
            Self::Int(get) => get(row).map_or(SortValue::Absent, SortValue::Int),
            Self::Bool(get) => get(row).map_or(SortValue::Absent, SortValue::Bool),
            Self::Enum(values, get) => get(row).map_or(SortValue::Absent, |name| {
                let place = values.iter().position(|value| *value == name).unwrap_or(values.len());
                SortValue::Int(i64::try_from(place).unwrap_or(i64::MAX))
            }),
            Self::Entry(get, key) => get(row, key).map_or(SortValue::Absent, SortValue::Text),
        }
    }

    fn is_type_of(&self, value: SortValue<'_>) -> bool {
        match (self, value) {
            (Self::Name(_), value) => matches!(value, SortValue::Text(_)),
            (_, SortValue::Absent) => true,
            (Self::Text(_) | Self::Entry(..), SortValue::Text(_)) => true,
            (Self::Int(_) | Self::Enum(..), SortValue::Int(_)) => true,
            (Self::Bool(_), SortValue::Bool(_)) => true,
            _ => false,
        }
    }
}

fn first_difference(mut orders: impl Iterator<Item = Ordering>) -> Ordering {
    orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

fn path_and_direction(part: &str, position: usize) -> Result<(&str, bool), ListError> {
    let mut words = part.split_whitespace();
    match (words.next(), words.next(), words.next()) {
        (Some(path), None, _) => Ok((path, false)),
        (Some(path), Some("asc"), None) => Ok((path, false)),
        (Some(path), Some("desc"), None) => Ok((path, true)),
        (None, ..) => Err(syntax(position, "a field is expected".to_owned())),
        _ => Err(syntax(position, "a comma, or one desc, is expected after the field".to_owned())),
    }
}

fn syntax(position: usize, problem: String) -> ListError {
    ListError::Syntax { argument: Argument::OrderBy, position, problem }
}
