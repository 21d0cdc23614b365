//! Output formats of lists: tables for terminals, and the JSON of the API.

use std::sync::LazyLock;

use clap::ValueEnum;
use fleetwright_proto::DESCRIPTOR_SET;
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};
use serde_json::Value;

use super::kinds::Kind;
use api_messages::resource::Resource;
use command::escape::escape_unprintable;
use command::exit::Failure;
use command::rows::Format;

/// Output format of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FleetFormat {
    /// For terminals.
    Table,
    /// For terminals, with more columns.
    Wide,
    /// Machine-readable: the JSON of the API.
    Json,
    /// The JSON document as YAML.
    Yaml,
    /// Names of resources.
    Name,
}

/// Descriptors of the API; `None` cannot happen, because the same descriptors made its types.
static DESCRIPTORS: LazyLock<Option<DescriptorPool>> = LazyLock::new(|| DescriptorPool::decode(DESCRIPTOR_SET).ok());

/// A message in the JSON of the API.
///
/// # Errors
/// The descriptors lack the message, which is an error of this program.
pub fn value(name: &str, message: &impl Message) -> Result<Value, Failure> {
    let descriptor = DESCRIPTORS.as_ref().and_then(|pool| pool.get_message_by_name(name));
    let descriptor = descriptor.ok_or_else(|| Failure::internal(format!("no descriptor of {name}")))?;
    let bytes = message.encode_to_vec();
    let dynamic = DynamicMessage::decode(descriptor, bytes.as_slice()).map_err(Failure::internal)?;
    let options = SerializeOptions::new().skip_default_fields(false);
    dynamic.serialize_with_options(serde_json::value::Serializer, &options).map_err(Failure::internal)
}

/// A message in a format; `table` is that for terminals.
///
/// # Errors
/// As [`value`].
pub(crate) fn message_document(
    name: &str,
    message: &impl Message,
    format: Format,
    table: impl FnOnce() -> String,
) -> Result<String, Failure> {
    match format {
        Format::Table => Ok(table()),
        Format::Json => serialized(&value(name, message)?, FleetFormat::Json),
        Format::Yaml => serialized(&value(name, message)?, FleetFormat::Yaml),
    }
}

/// Rows in a format.
///
/// # Errors
/// As [`value`].
pub(super) fn document<K: Kind>(rows: &[K::Row], format: FleetFormat) -> Result<String, Failure> {
    match format {
        FleetFormat::Table | FleetFormat::Wide => Ok(table(&headings::<K>(format), &cells::<K>(rows, format))),
        FleetFormat::Name => Ok(rows.iter().map(|row| format!("{}\n", escape_unprintable(row.name()))).collect()),
        FleetFormat::Json | FleetFormat::Yaml => {
            let values: Result<Vec<Value>, Failure> = rows.iter().map(|row| value(K::MESSAGE, row)).collect();
            serialized(&Value::Array(values?), format)
        }
    }
}

/// As JSON, or as YAML.
///
/// # Errors
/// The value cannot be written, which is an error of this program.
pub(super) fn serialized(value: &Value, format: FleetFormat) -> Result<String, Failure> {
    match format {
        FleetFormat::Yaml => serde_saphyr::to_string(value).map_err(Failure::internal),
        _ => Ok(serde_json::to_string_pretty(value).map_err(Failure::internal)? + "\n"),
    }
}

/// Headings of a table.
pub(super) fn headings<K: Kind>(format: FleetFormat) -> Vec<&'static str> {
    let shown = if format == FleetFormat::Wide { K::COLUMNS.len() } else { K::NARROW };
    K::COLUMNS[..shown].to_vec()
}

/// Cells of a table.
pub(super) fn cells<K: Kind>(rows: &[K::Row], format: FleetFormat) -> Vec<Vec<String>> {
    let shown = headings::<K>(format).len();
    let cells = |row: &K::Row| {
        let cells = K::cells(row).into_iter().take(shown);
        cells.map(|cell| escape_unprintable(&cell).into_owned()).collect()
    };
    rows.iter().map(cells).collect()
}

/// A table with these headings; columns are as wide as their widest cell.
pub(super) fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row.get(column).map_or(0, |cell| cell.chars().count()));
        cells.chain([headings[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> = cells.zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        format!("{}\n", padded.join("  ").trim_end())
    };
    let mut text = line(&mut headings.iter().copied());
    rows.iter().for_each(|row| text.push_str(&line(&mut row.iter().map(String::as_str))));
    text
}
