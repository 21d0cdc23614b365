//! `fleetwright accounts`: the file of accounts and regions, `cloud.accounts-file`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use command::exit::{Failure, Status};
use command::output;
use server_settings::{AccountEntry, Accounts};

/// Check the file of accounts and regions that a server launches in
#[derive(Debug, Subcommand)]
pub enum AccountsCommand {
    Check(CheckFlags),
}

/// Print all errors of a file of accounts (cloud.accounts-file), and which account and region each cluster belongs to
///
/// Exit status 2: a server refuses the file, or one of the clusters.
#[derive(Debug, Args)]
pub struct CheckFlags {
    /// The file of accounts
    file: PathBuf,
    /// A cluster whose account and region are printed; may be repeated
    #[arg(long, value_name = "NAME")]
    cluster: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// All errors of the file, or the clusters that no entry names.
pub fn run(command: AccountsCommand) -> Result<Status, Failure> {
    let AccountsCommand::Check(CheckFlags { file, cluster }) = command;
    let refused = |messages| Failure { status: Status::Refused, messages };
    let accounts = Accounts::read(&file).map_err(|error| refused(error.messages()))?;
    let mut unassigned = Vec::new();
    let mut text = format!("{} is valid: accounts and regions: {}\n", file.display(), accounts.entries().len());
    for name in cluster {
        match accounts.rules().entry_of(&name) {
            Ok(entry) => text.push_str(&assignment(&name, &accounts.entries()[entry])),
            Err(error) => unassigned.push(error.to_string()),
        }
    }
    output::print_text(&text)?;
    if unassigned.is_empty() { Ok(Status::Done) } else { Err(refused(unassigned)) }
}

/// A line about a cluster.
fn assignment(cluster: &str, AccountEntry { account, region, roles, .. }: &AccountEntry) -> String {
    let role = roles.cluster.as_deref().map(|role| role.replace("{cluster}", cluster));
    let role = role.or_else(|| roles.account.clone()).map(|role| format!(", role {role}")).unwrap_or_default();
    format!("cluster {cluster}: account {account}, region {region}{role}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use server_settings::AccountRoles;

    #[test]
    fn the_line_of_a_cluster_has_the_role_of_its_changes() {
        let line = |roles: AccountRoles| {
            let entry = AccountEntry {
                account: "1".to_owned(),
                region: "eu-west-1".to_owned(),
                roles,
                interruption_queue: None,
                api_limit_percent: 100,
                endpoint: None,
            };
            assignment("prod-1", &entry)
        };
        let account = Some("arn:aws:iam::1:role/all".to_owned());
        let cluster = Some("arn:aws:iam::1:role/one-{cluster}".to_owned());
        let [none, shared, own] = [(None, None), (account.clone(), None), (account, cluster)]
            .map(|(account, cluster)| line(AccountRoles { account, cluster, external_id: None }));
        assert_eq!(none, "cluster prod-1: account 1, region eu-west-1\n");
        assert_eq!(shared, "cluster prod-1: account 1, region eu-west-1, role arn:aws:iam::1:role/all\n");
        assert_eq!(own, "cluster prod-1: account 1, region eu-west-1, role arn:aws:iam::1:role/one-prod-1\n");
    }
}
