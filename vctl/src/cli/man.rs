//! `vctl man`.

use std::{fs, io, path::PathBuf};

use clap::Args;

use super::{
    error::{CliError, Exit},
    output::print,
};

/// Arguments of `vctl man`.
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Directory to write them to, such as ~/.local/share/man/man1; it is made when there is none
    directory: PathBuf,
}

impl Man {
    /// Writes `vctl.1` and a page for every command below it. They are made of the help texts of this program, so they are always those
    /// of its version.
    pub(super) fn run(self, mut root: clap::Command) -> Result<(), CliError> {
        fs::create_dir_all(&self.directory).map_err(CliError::file(&self.directory))?;
        root.build();
        let mut pages = 0;
        write(&root, &["vctl"], &self.directory, &mut pages)?;
        print(&format!("{pages} pages are in {}\n", self.directory.display()))
    }
}

/// A page for a command and those below it: `vctl-jobs-logs.1`.
fn write(
    command: &clap::Command,
    path: &[&str],
    directory: &std::path::Path,
    pages: &mut usize,
) -> Result<(), CliError> {
    let name = path.join("-");
    let page = render(command, &name).map_err(CliError::Output)?;
    let file = directory.join(format!("{name}.1"));
    fs::write(&file, page).map_err(CliError::file(&file))?;
    *pages += 1;
    for below in command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help") {
        let path: Vec<&str> = path.iter().copied().chain([below.get_name()]).collect();
        write(below, &path, directory, pages)?;
    }
    Ok(())
}

fn render(command: &clap::Command, name: &str) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    let man = clap_mangen::Man::new(command.clone()).title(name.to_uppercase()).section("1");
    man.render(&mut page)?;
    io::Write::write_all(&mut page, exit_status(command.get_name() == "connect").as_bytes())?;
    Ok(page)
}

/// The same for all commands but one, which gives the code of the command that it runs.
fn exit_status(is_connect: bool) -> String {
    let mut text = ".SH \"EXIT STATUS\"\n".to_owned();
    for (code, meaning) in Exit::all() {
        text.push_str(&format!(".TP\n{code}\n{meaning}\n"));
    }
    if is_connect {
        text.push_str(".PP\nOf a command that was run it is the code of that command; 128 and the number of the signal that ended it; ");
        text.push_str("127 when there is no such program.\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn every_command_has_a_page() {
        let dir = tempfile::tempdir().expect("dir");
        Man { directory: dir.path().join("man1") }.run(crate::Cli::command()).expect("pages");
        let read = |name: &str| fs::read_to_string(dir.path().join("man1").join(name)).expect(name);
        for (code, meaning) in Exit::all() {
            assert!(!meaning.is_empty() && read("vctl.1").contains(&format!(".TP\n{code}\n{meaning}\n")), "{code}");
        }
        assert!(read("vctl-connect.1").contains("code of that command"));
        assert!(read("vctl.1").contains("EXIT STATUS") && read("vctl.1").contains("vctl\\-create(1)"));
        assert!(read("vctl-create.1").contains("\\-\\-template"));
        assert!(read("vctl-jobs-logs.1").contains("\\-\\-follow"));
    }
}
