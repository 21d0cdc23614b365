//! `fleetwright completion`: scripts by which shells complete the words of commands.

use std::ffi::OsString;

use crate::exit::{Failure, Status};
use crate::output;
use clap::{Args, Command, ValueEnum};
use clap_complete::env::{Bash, CompleteEnv, EnvCompleter, Fish, Shells, Zsh};

/// Variable by which a script asks this program for the words that may follow.
const VARIABLE: &str = "FLEETWRIGHT_COMPLETE";

/// The shells for which there are scripts.
const SHELLS: Shells<'_> = Shells(&[&Bash, &Zsh, &Fish]);

/// Print the script by which a shell completes commands, flags, and names of clusters
#[derive(Debug, Args)]
#[command(after_help = "\
bash: source <(fleetwright completion bash)
zsh:  source <(fleetwright completion zsh), after compinit
fish: fleetwright completion fish | source")]
pub struct CompletionFlags {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Prints the script, which runs this program by its name on the search path.
///
/// # Errors
/// When standard output is closed.
pub fn run(flags: &CompletionFlags, command: &Command) -> Result<Status, Failure> {
    let shell: &dyn EnvCompleter = match flags.shell {
        Shell::Bash => &Bash,
        Shell::Zsh => &Zsh,
        Shell::Fish => &Fish,
    };
    let name = command.get_name();
    output::print(|out| {
        let mut script = Vec::new();
        shell.write_registration(VARIABLE, name, name, name, &mut script)?;
        out.write_all(&script)
    })?;
    Ok(Status::Done)
}

/// Prints the words that may follow, if a script of [`run`] asks for them. Returns whether it did.
///
/// # Errors
/// A request that is no script's.
pub fn answer(words: &[OsString], command: fn() -> Command) -> clap::error::Result<bool> {
    let directory = std::env::current_dir().ok();
    CompleteEnv::with_factory(command)
        .var(VARIABLE)
        .shells(SHELLS)
        .try_complete(words.iter().cloned(), directory.as_deref())
}
