//! Rows that change, until the command is interrupted.

use std::time::Duration;

use futures::StreamExt;
use serde_json::json;
use tonic::{Code, Status};

use super::kinds::{Changes, Kind, Selection};
use super::listing::list;
use super::output_format::{FleetFormat, cells, value};
use crate::remote::{FleetClient, rpc_failure};
use api_messages::resource::Resource;
use command::exit::Failure;
use command::output;

/// Delay before a watch that ended is resumed.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Prints changes after `resume_token`. A watch that ends is resumed; one whose position is lost begins again with a list,
/// which is printed.
pub(super) async fn run<K: Kind>(
    mut client: FleetClient,
    selection: &Selection,
    mut resume_token: String,
    format: FleetFormat,
) -> Result<(), Failure> {
    loop {
        let ended = follow::<K>(&mut client, selection, &mut resume_token, format).await?;
        match ended.code() {
            Code::OutOfRange => {
                let listed = list::<K>(&mut client, selection, usize::MAX).await?;
                let (deleted, reset) = (Vec::new(), Vec::new());
                let changes = Changes { rows: listed.rows, deleted, resume_token: listed.resume_token, reset };
                output::print_document(&text::<K>(&changes, format)?)?;
                resume_token = changes.resume_token;
            }
            Code::Unavailable | Code::Unknown | Code::Cancelled | Code::Internal => {}
            _ => return Err(rpc_failure(ended)),
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

/// Returns why the watch ended.
async fn follow<K: Kind>(
    client: &mut FleetClient,
    selection: &Selection,
    resume_token: &mut String,
    format: FleetFormat,
) -> Result<Status, Failure> {
    let mut changes = match K::watch(client, selection, resume_token.clone()).await {
        Ok(changes) => changes,
        Err(status) => return Ok(status),
    };
    loop {
        match changes.next().await {
            Some(Ok(message)) => {
                output::print_document(&text::<K>(&message, format)?)?;
                *resume_token = message.resume_token;
            }
            Some(Err(status)) => return Ok(status),
            None => return Ok(Status::unavailable("the server ended the watch")),
        }
    }
}

/// A line for each row. A row that is gone is marked as deleted.
pub(super) fn text<K: Kind>(changes: &Changes<K::Row>, format: FleetFormat) -> Result<String, Failure> {
    let mut text = String::new();
    let mut line = |line: &str| {
        text.push_str(line);
        text.push('\n');
    };
    match format {
        FleetFormat::Table | FleetFormat::Wide => {
            cells::<K>(&changes.rows, format).iter().for_each(|row| line(row.join("  ").trim_end()));
            changes.deleted.iter().for_each(|name| line(&format!("{name}  deleted")));
        }
        FleetFormat::Name => {
            changes.rows.iter().for_each(|row| line(row.name()));
            changes.deleted.iter().for_each(|name| line(&format!("{name} deleted")));
        }
        FleetFormat::Json | FleetFormat::Yaml => {
            for row in &changes.rows {
                line(&value(K::MESSAGE, row)?.to_string());
            }
            changes.deleted.iter().for_each(|name| line(&json!({ "deleted": name }).to_string()));
        }
    }
    Ok(text)
}
