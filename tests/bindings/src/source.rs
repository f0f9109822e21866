// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses Rust source: records with the layout of C, functions and statics of C, constants and aliases.

use std::collections::BTreeMap;

use syn::{Expr, ForeignItem, Item, Lit, ReturnType, UnOp, UseTree};

use crate::types::{Key, Type, number};

/// A struct or union with the layout of C.
pub struct Record {
    /// Names and types, in order.
    pub fields: Vec<(String, syn::Type)>,
    /// All fields are at offset 0.
    pub union: bool,
    /// It has the layout of its only field.
    transparent: bool,
}

/// A function or static of C. A static has no arguments and its type as the result.
pub struct Foreign {
    /// The file that declares it.
    pub file: usize,
    /// Its symbol name.
    pub name: String,
    /// Types of its arguments.
    pub inputs: Vec<syn::Type>,
    /// Type of its result; `None` is void.
    pub output: Option<syn::Type>,
}

/// The declarations of some files.
#[derive(Default)]
pub struct Source {
    /// Names of the files, for messages.
    pub files: Vec<String>,
    /// Structs and unions.
    pub records: BTreeMap<Key, Record>,
    /// Functions and statics.
    pub foreign: Vec<Foreign>,
    /// Constants, not yet evaluated.
    pub constants: BTreeMap<Key, Expr>,
    aliases: BTreeMap<Key, syn::Type>,
    /// The imports of each file: local name and full path.
    uses: BTreeMap<Key, Vec<String>>,
}

fn repr(attributes: &[syn::Attribute]) -> Vec<String> {
    let mut found = Vec::new();
    for attribute in attributes.iter().filter(|one| one.path().is_ident("repr")) {
        // Errors are ignored: they come from another layout than C's or from `align(N)`. layout.rs does not support
        // these, so the sources must not use them.
        let _ = attribute.parse_nested_meta(|meta| {
            found.extend(meta.path.get_ident().map(ToString::to_string));
            Ok(())
        });
    }
    found
}

fn plain(name: &syn::Ident) -> String {
    name.to_string().trim_start_matches("r#").trim_end_matches('_').to_string()
}

fn fields<'a>(fields: impl IntoIterator<Item = &'a syn::Field>) -> Vec<(String, syn::Type)> {
    let named = fields.into_iter().enumerate();
    named.map(|(at, one)| (one.ident.as_ref().map_or(at.to_string(), plain), one.ty.clone())).collect()
}

impl Source {
    /// Reads one more file.
    ///
    /// # Errors
    /// Text that is not Rust code.
    pub fn read(&mut self, name: &str, text: &str) -> Result<(), String> {
        let parsed = syn::parse_file(text).map_err(|error| format!("{name}: {error}"))?;
        self.files.push(name.to_string());
        parsed.items.iter().for_each(|item| self.item(item));
        Ok(())
    }

    fn item(&mut self, item: &Item) {
        let file = self.files.len() - 1;
        match item {
            Item::Struct(own) => {
                let repr = repr(&own.attrs);
                if repr.iter().any(|word| word == "C" || word == "transparent") {
                    let transparent = repr.iter().any(|word| word == "transparent");
                    let record = Record { fields: fields(&own.fields), union: false, transparent };
                    self.records.insert((file, own.ident.to_string()), record);
                }
            }
            Item::Union(own) => {
                let record = Record { fields: fields(&own.fields.named), union: true, transparent: false };
                self.records.insert((file, own.ident.to_string()), record);
            }
            Item::Enum(own) => {
                if let Some(word) = repr(&own.attrs).iter().find(|word| number(word).is_some()) {
                    let ty = syn::parse_str(word).expect("a number is a type");
                    self.aliases.insert((file, own.ident.to_string()), ty);
                }
            }
            Item::Type(own) => {
                self.aliases.insert((file, own.ident.to_string()), (*own.ty).clone());
            }
            Item::Const(own) => {
                self.constants.insert((file, own.ident.to_string()), (*own.expr).clone());
            }
            Item::Use(own) => self.used(file, &own.tree, &[]),
            Item::ForeignMod(block) => block.items.iter().for_each(|one| self.foreign_item(file, one)),
            Item::Mod(inner) => {
                let items = inner.content.iter().flat_map(|(_, items)| items);
                items.filter(|one| !matches!(one, Item::Mod(_))).for_each(|one| self.item(one));
            }
            _ => {}
        }
    }

    fn used(&mut self, file: usize, tree: &UseTree, before: &[String]) {
        let path = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(inner) => self.used(file, &inner.tree, &path(&inner.ident)),
            UseTree::Group(group) => group.items.iter().for_each(|one| self.used(file, one, before)),
            UseTree::Name(own) => drop(self.uses.insert((file, own.ident.to_string()), path(&own.ident))),
            UseTree::Rename(own) => drop(self.uses.insert((file, own.rename.to_string()), path(&own.ident))),
            UseTree::Glob(_) => {}
        }
    }

    fn foreign_item(&mut self, file: usize, item: &ForeignItem) {
        let found = match item {
            ForeignItem::Fn(own) => {
                let typed = own.sig.inputs.iter().filter_map(|one| match one {
                    syn::FnArg::Typed(typed) => Some((*typed.ty).clone()),
                    syn::FnArg::Receiver(_) => None,
                });
                let output = match &own.sig.output {
                    ReturnType::Default => None,
                    ReturnType::Type(_, ty) => Some((**ty).clone()),
                };
                Foreign { file, name: own.sig.ident.to_string(), inputs: typed.collect(), output }
            }
            ForeignItem::Static(own) => {
                let output = Some((*own.ty).clone());
                Foreign { file, name: own.ident.to_string(), inputs: Vec::new(), output }
            }
            _ => return,
        };
        self.foreign.push(found);
    }

    /// Resolves a path within a file: to an item of that file, to an import with this name, or to the item with that
    /// name in the file of the named module or in any other file.
    fn find<'a, T>(&self, map: &'a BTreeMap<Key, T>, file: usize, path: &[String]) -> Option<(&'a Key, &'a T)> {
        let (name, modules) = path.split_last()?;
        let here = map.get_key_value(&(file, name.clone()));
        let used = self.uses.get(&(file, name.clone()));
        match (modules.last(), here, used) {
            (None, Some(found), _) => return Some(found),
            (None, None, Some(path)) if path.len() > 1 => return self.find(map, file, path),
            _ => {}
        }
        let mut elsewhere = map.iter().filter(|((at, own), _)| own == name && *at != file);
        let of_module =
            |at: usize| modules.last().is_some_and(|module| self.files[at].ends_with(&format!("/{module}.rs")));
        elsewhere.clone().find(|((at, _), _)| of_module(*at)).or_else(|| elsewhere.next()).or(here)
    }

    /// The value of a constant expression.
    ///
    /// # Errors
    /// Describes the part that is not supported.
    pub fn value(&self, file: usize, expression: &Expr) -> Result<i128, String> {
        let unknown = || Err(format!("{}: a constant that is not understood", self.files[file]));
        match expression {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Int(number) => number.base10_parse().map_err(|error| error.to_string()),
                _ => unknown(),
            },
            Expr::Paren(inner) => self.value(file, &inner.expr),
            Expr::Group(inner) => self.value(file, &inner.expr),
            Expr::Cast(cast) => self.value(file, &cast.expr),
            Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => Ok(-self.value(file, &unary.expr)?),
            Expr::Binary(binary) => {
                let (a, b) = (self.value(file, &binary.left)?, self.value(file, &binary.right)?);
                match binary.op {
                    syn::BinOp::Add(_) => Ok(a + b),
                    syn::BinOp::Sub(_) => Ok(a - b),
                    syn::BinOp::Mul(_) => Ok(a * b),
                    syn::BinOp::Div(_) if b != 0 => Ok(a / b),
                    syn::BinOp::Shl(_) if (0..127).contains(&b) => Ok(a << b),
                    _ => unknown(),
                }
            }
            Expr::MethodCall(call) if call.method == "len" => match &*call.receiver {
                Expr::Path(path) => match self.find(&self.constants, file, &words(&path.path)) {
                    Some((_, Expr::Array(array))) => Ok(array.elems.len() as i128),
                    _ => unknown(),
                },
                _ => unknown(),
            },
            Expr::Path(path) => {
                match (words(&path.path).join("::").as_str(), self.find(&self.constants, file, &words(&path.path))) {
                    ("u32::MAX", _) => Ok(u32::MAX.into()),
                    (_, Some((key, inner))) => self.value(key.0, inner),
                    (name, None) => Err(format!("{}: no constant {name}", self.files[file])),
                }
            }
            _ => unknown(),
        }
    }

    /// A type without its aliases.
    ///
    /// # Errors
    /// Names the type that C does not have.
    pub fn resolve(&self, file: usize, ty: &syn::Type) -> Result<Type, String> {
        match ty {
            syn::Type::Paren(inner) => self.resolve(file, &inner.elem),
            syn::Type::Group(inner) => self.resolve(file, &inner.elem),
            syn::Type::Ptr(pointer) => {
                let mutable = matches!(pointer.mutability, syn::PointerMutability::Mut(_));
                self.pointer(file, mutable, &pointer.elem)
            }
            syn::Type::Reference(pointer) => self.pointer(file, pointer.mutability.is_some(), &pointer.elem),
            syn::Type::Array(array) => {
                let len = u64::try_from(self.value(file, &array.len)?).map_err(|error| error.to_string())?;
                Ok(Type::Array(Box::new(self.resolve(file, &array.elem)?), len))
            }
            syn::Type::FnPtr(_) => Ok(Type::Function),
            syn::Type::Tuple(none) if none.elems.is_empty() => Ok(Type::Void),
            syn::Type::Path(path) => self.named(file, &path.path),
            _ => Err(format!("{}: a type that C does not have", self.files[file])),
        }
    }

    fn pointer(&self, file: usize, mutable: bool, to: &syn::Type) -> Result<Type, String> {
        Ok(Type::Pointer { mutable, to: Box::new(self.resolve(file, to)?) })
    }

    fn named(&self, file: usize, path: &syn::Path) -> Result<Type, String> {
        let last = path.segments.last().ok_or("an empty path")?;
        let name = last.ident.to_string();
        let inner = match &last.arguments {
            syn::PathArguments::AngleBracketed(list) => list.args.iter().find_map(|one| match one {
                syn::GenericArgument::Type(ty) => Some(ty),
                _ => None,
            }),
            _ => None,
        };
        match (name.as_str(), inner) {
            ("Option" | "MaybeUninit" | "UnsafeCell" | "Cell", Some(of)) => return self.resolve(file, of),
            ("NonNull", Some(of)) => return self.pointer(file, true, of),
            ("PhantomData", _) => return Ok(Type::Array(Box::new(Type::Number("u8")), 0)),
            ("c_void", None) => return Ok(Type::Void),
            _ => {}
        }
        if let Some(found) = number(&name) {
            return Ok(found);
        }
        if let Some((key, record)) = self.find(&self.records, file, &words(path)) {
            return match record.fields.first() {
                Some((_, only)) if record.transparent => self.resolve(key.0, only),
                _ => Ok(Type::Record(key.clone())),
            };
        }
        match self.find(&self.aliases, file, &words(path)) {
            Some((key, alias)) => self.resolve(key.0, alias),
            None => Err(format!("{}: {} has no layout that C knows", self.files[file], words(path).join("::"))),
        }
    }
}

fn words(path: &syn::Path) -> Vec<String> {
    path.segments.iter().map(|one| one.ident.to_string()).collect()
}
