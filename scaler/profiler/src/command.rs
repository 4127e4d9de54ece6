//! Command of an instance: placeholders and environment.

use crate::setting::Setting;

/// Longest time for which a measured instance waits for a batch to fill, in milliseconds. There is one client for each
/// place of its batches, so all are full: it is the time that the clients have to send their next requests.
pub(crate) const BATCH_WAIT_MILLIS: u64 = 100;

/// Configuration and port of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// CPU, batch size and concurrency.
    pub setting: Setting,
    /// TCP port to listen on.
    pub port: u16,
}

impl Placement {
    /// Returns placeholders, variables and values.
    fn values(&self) -> [(&'static str, &'static str, String); 5] {
        let Setting {
            cpu_millis,
            batch,
            concurrency,
        } = self.setting;
        [
            ("{port}", "TETRIS_PORT", self.port.to_string()),
            ("{batch}", "TETRIS_BATCH", batch.to_string()),
            (
                "{concurrency}",
                "TETRIS_CONCURRENCY",
                concurrency.to_string(),
            ),
            ("{cpu_millis}", "TETRIS_CPU_MILLIS", cpu_millis.to_string()),
            (
                "{batch_wait_millis}",
                "TETRIS_BATCH_WAIT_MILLIS",
                BATCH_WAIT_MILLIS.to_string(),
            ),
        ]
    }

    /// Returns `command` with its placeholders replaced. Other braces stay, as arguments may be
    /// JSON.
    pub fn arguments(&self, command: &[String]) -> Vec<String> {
        let values = self.values();
        let replaced = |argument: &String| {
            let placeholders = values.iter();
            placeholders.fold(argument.clone(), |text, (name, variable, value)| {
                // As Kubernetes replaces variables in a container's arguments.
                let text = text.replace(name, value);
                text.replace(&format!("$({variable})"), value)
            })
        };
        command.iter().map(replaced).collect()
    }

    /// Returns the environment variables.
    pub fn environment(&self) -> [(&'static str, String); 5] {
        self.values().map(|(_, variable, value)| (variable, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced_wherever_they_are_and_other_braces_stay() {
        let setting = Setting {
            cpu_millis: 500,
            batch: 4,
            concurrency: 2,
        };
        let placement = Placement { setting, port: 99 };
        let command = [
            "serve",
            "--port={port}",
            "{batch}x{concurrency}",
            "{\"c\": {cpu_millis}}",
            "{batch_wait_millis}ms",
            "$(TETRIS_CONCURRENCY)",
        ];
        let command = command.map(str::to_owned);
        assert_eq!(
            placement.arguments(&command),
            ["serve", "--port=99", "4x2", "{\"c\": 500}", "100ms", "2"]
        );
        assert!(
            placement
                .environment()
                .contains(&("TETRIS_BATCH", "4".to_owned()))
        );
    }
}
