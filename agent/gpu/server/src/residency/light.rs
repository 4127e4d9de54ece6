//! Light models: those whose transfer an inference hides (Torpor 5.4), which depends on a device's
//! link.

use super::{DeviceId, Manager};

impl Manager {
    /// Sets the length in bytes up to which a model is light on a device. Until then it is
    /// [`Config::light_bytes`](super::Config::light_bytes).
    pub fn set_light_bytes(&mut self, device: DeviceId, light_bytes: u64) {
        if let Some(device) = self.device_of_mut(device) {
            device.config.light_bytes = light_bytes;
        }
    }

    /// Length in bytes up to which a model is light on a device.
    pub fn light_bytes(&self, device: DeviceId) -> u64 {
        let device = self.device_of(device);
        device.map_or(self.config.light_bytes, |device| device.config.light_bytes)
    }
}

#[cfg(test)]
mod tests {
    use tetris_store_layout::ObjectId;

    use super::*;
    use crate::residency::{ClientId, Config, ModelSpec, Part, TenantId};

    const MIB: u64 = 1 << 20;

    fn model(name: &str, mib: u64) -> ModelSpec {
        let object = ObjectId::of(name.as_bytes());
        let part = Part {
            object,
            len: mib * MIB,
        };
        ModelSpec::try_new(&[part], &[]).unwrap()
    }

    /// Two idle models, the older of 400 MiB and the newer of 300. Which one leaves depends on the
    /// link: a fast one makes both light, a slow one none, and one in between only the small one.
    #[test]
    fn the_link_decides_which_models_are_light() {
        for (light_mib, evicted) in [(500, "old"), (350, "new"), (100, "old")] {
            let (tenant, device) = (TenantId(0), DeviceId(0));
            let mut manager = Manager::new(Config::default());
            manager.set_capacity(device, 800 * MIB);
            manager.set_light_bytes(device, light_mib * MIB);
            assert_eq!(manager.light_bytes(device), light_mib * MIB);
            let models = [model("old", 400), model("new", 300)];
            for (now, spec) in (1..).zip(&models) {
                let client = ClientId(now);
                manager.admit(tenant, client, spec, None, now).unwrap();
                for part in spec.parts() {
                    manager.copied(device, tenant, &part.object).unwrap();
                }
                manager.disconnect(client, now);
            }
            let next = model("next", 200);
            let admission = manager.admit(tenant, ClientId(9), &next, None, 9).unwrap();
            let left = admission.freed.evicted[0].model;
            assert_eq!(
                left,
                model(evicted, if evicted == "old" { 400 } else { 300 }).key()
            );
        }
        let unknown = Manager::new(Config::default());
        assert_eq!(
            unknown.light_bytes(DeviceId(7)),
            Config::default().light_bytes
        );
    }
}
