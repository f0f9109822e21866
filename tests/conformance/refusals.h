/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Names of errors in golden files that are refused. Include a header of the core first. */
#ifndef LINNET_CHECK_REFUSALS_H
#define LINNET_CHECK_REFUSALS_H

/* The code of a named error; 0 for an unknown name. */
static inline int refusal(const char *name)
{
	static const struct {
		const char *name;
		int error;
	} errors[] = {
		{ "truncated", LINNET_E_TRUNCATED }, { "magic", LINNET_E_MAGIC },   { "version", LINNET_E_VERSION },
		{ "length", LINNET_E_LENGTH },       { "checksum", LINNET_E_CHECKSUM }, { "kind", LINNET_E_KIND },
		{ "schema", LINNET_E_SCHEMA },       { "field", LINNET_E_FIELD },       { "shape", LINNET_E_SHAPE },
	};

	for (unsigned e = 0; e < sizeof(errors) / sizeof(*errors); e++)
		if (strcmp(errors[e].name, name) == 0)
			return errors[e].error;
	return 0;
}

#endif
