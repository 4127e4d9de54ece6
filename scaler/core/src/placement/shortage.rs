//! Shortage of a node.

use std::fmt;

use serde::Serialize;

/// Resources that a node lacks for one more instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Shortage {
    /// CPU, in millicores.
    pub cpu_millis: u64,
    /// Memory, in bytes; includes tensors if they have no separate room.
    pub memory_bytes: u64,
    /// Room for tensors in bytes, if they have their own.
    pub tensor_bytes: u64,
    /// GPUs of the configuration's type: 1 for a node without one.
    pub gpus: u64,
    /// Device memory of the GPU, private and of tensors, in bytes.
    pub gpu_bytes: u64,
    /// Time of the GPU, in thousandths.
    pub gpu_permille: u64,
}

impl Shortage {
    /// Returns true if the node lacks nothing.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [
            (self.cpu_millis, "millicores"),
            (self.memory_bytes, "bytes of memory"),
            (self.tensor_bytes, "bytes of room for tensors"),
            (self.gpus, "GPU of the configuration's type"),
            (self.gpu_bytes, "bytes of GPU memory"),
            (self.gpu_permille, "thousandths of a GPU's time"),
        ];
        let lacking = all.iter().filter(|(amount, _)| *amount > 0);
        let count = lacking.clone().count();
        if count == 0 {
            return f.write_str("nothing");
        }
        for (at, (amount, unit)) in lacking.enumerate() {
            let separator = match at {
                0 => "",
                _ if at.saturating_add(1) == count => " and ",
                _ => ", ",
            };
            write!(f, "{separator}{amount} {unit}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_lacking_is_said() {
        let all = Shortage {
            cpu_millis: 1,
            memory_bytes: 2,
            tensor_bytes: 3,
            ..Shortage::default()
        };
        assert_eq!(
            all.to_string(),
            "1 millicores, 2 bytes of memory and 3 bytes of room for tensors"
        );
        let memory = Shortage {
            memory_bytes: 2,
            ..Shortage::default()
        };
        assert_eq!(memory.to_string(), "2 bytes of memory");
        let gpu = Shortage {
            gpus: 1,
            gpu_bytes: 4,
            gpu_permille: 5,
            ..Shortage::default()
        };
        assert_eq!(
            gpu.to_string(),
            "1 GPU of the configuration's type, 4 bytes of GPU memory and 5 thousandths of a GPU's time"
        );
        assert!(Shortage::default().is_none() && !memory.is_none());
        assert_eq!(Shortage::default().to_string(), "nothing");
    }
}
