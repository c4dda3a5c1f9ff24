//! Theme and keys of the dashboard.

use std::{collections::BTreeMap, fs, io, path::Path};

use serde_yaml::Value;
use vctl_tui::{
    keys::KeyMap,
    state::Settings,
    theme::{THEMES, Theme},
};

use crate::cli::{contexts::config_file, error::CliError};

/// The settings of a file, where options and environment do not say otherwise. What is wrong in the file are warnings; a file that was
/// named but is not there, and a theme that was asked for but does not exist, are errors.
pub(super) fn read(file: Option<&Path>, theme: Option<&str>, read_only: bool) -> Result<Settings, CliError> {
    let usual = config_file().ok().map(|path| path.with_file_name("dash.yaml"));
    let path = file.map(Path::to_owned).or(usual);
    let text = match &path {
        None => String::new(),
        Some(path) => match fs::read_to_string(path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound && file.is_none() => String::new(),
            Err(e) => return Err(CliError::file(path)(e)),
        },
    };
    let colours = std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let mut settings = parse(&text, colours);
    if let Some(path) = path {
        for warning in &mut settings.warnings {
            *warning = format!("{}: {warning}", path.display());
        }
    }
    if let Some(name) = theme {
        settings.theme = Theme::named(name).ok_or_else(|| CliError::Usage(no_theme(name)))?;
    }
    settings.read_only = read_only;
    settings.ascii = !utf8(|name| std::env::var(name).ok());
    Ok(settings)
}

fn no_theme(name: &str) -> String {
    let names: Vec<&str> = THEMES.iter().map(|theme| theme.name).collect();
    format!("there is no theme {name:?}: there are {}", names.join(", "))
}

/// Whether the terminal takes UTF-8, by POSIX's order of variables.
fn utf8(variable: impl Fn(&str) -> Option<String>) -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(variable).find(|v| !v.is_empty());
    let locale = locale.unwrap_or_default().to_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

fn parse(text: &str, colours: bool) -> Settings {
    let mut settings = Settings::default();
    if !colours {
        settings.theme = Theme::named("mono").unwrap_or(settings.theme);
    }
    let document = match serde_yaml::from_str::<Value>(text) {
        Ok(Value::Mapping(document)) => document,
        Ok(Value::Null) => return settings,
        Ok(_) => {
            settings.warnings.push("it is no mapping of settings: nothing of it counts".to_owned());
            return settings;
        }
        Err(e) => {
            settings.warnings.push(format!("{e}: nothing of it counts"));
            return settings;
        }
    };
    let mut keys = BTreeMap::new();
    for (name, value) in document {
        match (name.as_str(), &value) {
            (Some("theme"), Value::String(name)) => match Theme::named(name) {
                Some(theme) if colours => settings.theme = theme,
                Some(_) => {}
                None => settings.warnings.push(no_theme(name)),
            },
            (Some("keys"), Value::Mapping(own)) => {
                for (action, value) in own {
                    let action = action.as_str().unwrap_or_default().to_owned();
                    match of_action(value) {
                        Some(own) => drop(keys.insert(action, own)),
                        None => settings.warnings.push(format!("keys: {action}: write a key, or a list of keys")),
                    }
                }
            }
            (Some(name @ ("theme" | "keys")), _) => settings.warnings.push(format!("{name} cannot be read")),
            (name, _) => {
                settings.warnings.push(format!("there is no setting {:?}: theme or keys", name.unwrap_or("?")))
            }
        }
    }
    let (map, warnings) = KeyMap::new(&keys);
    settings.keys = map;
    settings.warnings.extend(warnings);
    settings
}

/// A key, or a list of them; a digit may be written without quotes.
fn of_action(value: &Value) -> Option<Vec<String>> {
    let key = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    match value {
        Value::Sequence(all) => all.iter().map(key).collect(),
        one => Some(vec![key(one)?]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_the_settings_is_told_and_the_rest_counts() {
        let settings =
            parse("theme: dark\nkeys: {quit: x, view-1: 7, top: [], delet: [D], wide: {a: 1}}\ncolour: 1\n", true);
        assert_eq!(settings.theme.name, "dark");
        assert_eq!(
            settings.warnings,
            [
                "keys: wide: write a key, or a list of keys",
                "there is no setting \"colour\": theme or keys",
                "keys: there is no action \"delet\": did you mean delete?",
            ]
        );
        assert_eq!(parse("theme: pink", true).warnings, [no_theme("pink")]);
        assert_eq!(parse("a: [", true).warnings.len(), 1);
        assert!(parse("", true).warnings.is_empty());
        assert_eq!(parse("theme: dark", false).theme.name, "mono", "NO_COLOR is stronger than the file");
    }

    #[test]
    fn the_locale_says_what_the_terminal_takes() {
        let of = |pairs: &'static [(&str, &str)]| {
            utf8(|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned()))
        };
        assert!(of(&[("LANG", "C.UTF-8")]) && of(&[("LC_ALL", "de_DE.utf8"), ("LANG", "C")]));
        assert!(!of(&[("LC_ALL", "C"), ("LANG", "C.UTF-8")]) && !of(&[]) && of(&[("LC_ALL", ""), ("LANG", "C.UTF-8")]));
    }
}
