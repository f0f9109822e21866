// SPDX-License-Identifier: MIT OR Apache-2.0
//! The keys that a parameter file may have, as the reader of files asks for them.

use serde::de::{Deserialize, Deserializer, Visitor};

use crate::timeline::params::Params;

/// Keeps the names of the fields that a struct asks for.
struct Fields<'a>(&'a mut Option<&'static [&'static str]>);

impl<'de> Deserializer<'de> for Fields<'_> {
    type Error = serde::de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(serde::de::Error::custom("names only"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = Some(fields);
        self.deserialize_any(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

impl Params {
    /// The keys of a parameter file of this model, those too that [`Params::to_toml`] leaves out.
    pub fn keys() -> &'static [&'static str] {
        let mut found = None;
        // It refuses to give a value once it has been told the names of the fields.
        let _ = Params::deserialize(Fields(&mut found));
        found.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use toml::Table;

    use super::*;
    use crate::presets::PRESETS;

    #[test]
    fn the_keys_are_those_that_a_file_may_have() {
        let known = Params::keys();
        assert!(known.contains(&"channels") && known.contains(&"stalled_writes_max"), "{known:?}");
        for name in PRESETS {
            let text = Params::preset(name).unwrap().to_toml();
            let table: Table = text.parse().unwrap();
            assert!(table.keys().filter(|key| *key != "model").all(|key| known.contains(&key.as_str())), "{name}");
        }
        let unknown = Params::from_toml("preset = \"sata\"\nx = 1").unwrap_err().to_string();
        assert!(known.iter().all(|key| unknown.contains(&format!("`{key}`"))), "{unknown}");
    }
}
