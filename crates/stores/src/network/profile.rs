//! The files of the tools of S3: `~/.aws/credentials` and `~/.aws/config`. Only keys and regions are read,
//! which `object_store` takes from the environment alone.

use std::path::PathBuf;

/// Settings of a profile, and their names in the environment.
const NAMES: [(&str, &str); 4] = [
    ("aws_access_key_id", "aws_access_key_id"),
    ("aws_secret_access_key", "aws_secret_access_key"),
    ("aws_session_token", "aws_session_token"),
    ("region", "aws_region"),
];

/// Returns the settings of the user's profile, by the names of the environment in lower case.
pub(crate) fn settings(environment: &[(String, String)]) -> Vec<(&'static str, String)> {
    let variable = |name: &str| {
        let found = environment.iter().find(|(key, value)| key == name && !value.is_empty());
        found.map(|(_, value)| value.clone())
    };
    let profile = variable("AWS_PROFILE").unwrap_or_else(|| "default".into());
    let file = |name: &str, default: &str| {
        let home = variable("HOME").map(|home| PathBuf::from(home).join(".aws").join(default));
        let path = variable(name).map(PathBuf::from).or(home)?;
        std::fs::read_to_string(path).ok()
    };
    let mut found = Vec::new();
    if let Some(text) = file("AWS_CONFIG_FILE", "config") {
        let section = if profile == "default" { profile.clone() } else { format!("profile {profile}") };
        found.extend(section_of(&text, &section));
    }
    if let Some(text) = file("AWS_SHARED_CREDENTIALS_FILE", "credentials") {
        found.extend(section_of(&text, &profile));
    }
    found
}

/// The settings of a section.
fn section_of(text: &str, wanted: &str) -> Vec<(&'static str, String)> {
    let (mut is_wanted, mut found) = (false, Vec::new());
    for line in text.lines() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            is_wanted = name.trim() == wanted;
        } else if let Some((key, value)) = line.split_once('=').filter(|_| is_wanted)
            && let Some((_, name)) = NAMES.iter().find(|(known, _)| key.trim().eq_ignore_ascii_case(known))
        {
            found.push((*name, value.trim().to_owned()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_read_from_both_files() {
        let home = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| {
            std::fs::create_dir_all(home.path().join(".aws")).expect("a directory");
            std::fs::write(home.path().join(name), text).expect("a file");
        };
        write(
            ".aws/credentials",
            "# comment\n[default]\naws_access_key_id=A\n\n[work]\nAWS_ACCESS_KEY_ID = B\naws_secret_access_key = C=D/+\n",
        );
        write(".aws/config", "[default]\nregion = r1\n[profile work]\nregion = r2\noutput = json\n");
        let at = |name: &str, value: String| (name.to_owned(), value);
        let environment = vec![at("HOME", home.path().display().to_string())];
        let own = |name: &'static str, value: &str| (name, value.to_owned());
        assert_eq!(settings(&environment), [own("aws_region", "r1"), own("aws_access_key_id", "A")]);
        let work = [environment, vec![at("AWS_PROFILE", "work".into())]].concat();
        assert_eq!(
            settings(&work),
            [own("aws_region", "r2"), own("aws_access_key_id", "B"), own("aws_secret_access_key", "C=D/+")]
        );
        assert_eq!(settings(&[]), []);
    }
}
