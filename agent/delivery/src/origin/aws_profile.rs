//! Credentials of the AWS command's files, which `object_store` does not read.

use std::path::PathBuf;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};

/// Settings of a profile, by their names in the file and here.
const SETTINGS: [(&str, AmazonS3ConfigKey); 4] = [
    ("aws_access_key_id", AmazonS3ConfigKey::AccessKeyId),
    ("aws_secret_access_key", AmazonS3ConfigKey::SecretAccessKey),
    ("aws_session_token", AmazonS3ConfigKey::Token),
    ("region", AmazonS3ConfigKey::Region),
];

/// Variables that name credentials of another kind, which come before the files.
const OTHERS: [&str; 4] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
];

/// `builder` with what the profile's files say, where the environment names no credentials.
pub(super) fn complete(mut builder: AmazonS3Builder) -> AmazonS3Builder {
    if OTHERS.iter().any(|name| std::env::var_os(name).is_some()) {
        return builder;
    }
    let profile = std::env::var("AWS_PROFILE").unwrap_or_else(|_| "default".to_owned());
    for (variable, file) in [
        ("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
        ("AWS_CONFIG_FILE", "config"),
    ] {
        let path = std::env::var_os(variable).map(PathBuf::from).or_else(|| {
            Some(
                PathBuf::from(std::env::var_os("HOME")?)
                    .join(".aws")
                    .join(file),
            )
        });
        let text = path.and_then(|path| std::fs::read_to_string(path).ok());
        for (name, value) in settings(&text.unwrap_or_default(), &profile) {
            let key = SETTINGS.into_iter().find(|(setting, _)| *setting == name);
            if let Some((_, key)) = key
                && builder.get_config_value(&key).is_none()
            {
                builder = builder.with_config(key, value);
            }
        }
    }
    builder
}

/// Names and values of a profile in a file of the AWS command.
fn settings<'t>(text: &'t str, profile: &str) -> impl Iterator<Item = (&'t str, &'t str)> {
    let mut is_within = false;
    let profile = profile.to_owned();
    text.lines().filter_map(move |line| {
        let line = line.trim();
        if let Some(section) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            let section = section.trim();
            is_within = section.strip_prefix("profile ").map_or(section, str::trim) == profile;
        }
        let (name, value) = line.split_once('=').filter(|_| is_within)?;
        Some((name.trim(), value.trim()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_ends_where_the_next_begins() {
        let text = "[default]\naws_access_key_id = A\n# x = y\n[profile other]\nregion=eu-west-1\naws_access_key_id=B\n";
        let of = |profile: &str| settings(text, profile).collect::<Vec<_>>();
        assert_eq!(of("default")[0], ("aws_access_key_id", "A"));
        assert_eq!(
            of("other"),
            [("region", "eu-west-1"), ("aws_access_key_id", "B")]
        );
        assert!(of("none").is_empty());
    }
}
