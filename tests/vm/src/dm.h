/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Calls device-mapper without starting a process for each call. The functions return 0 or an error number. */
#ifndef VM_DM_H
#define VM_DM_H

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <linux/dm-ioctl.h>

#define DM_BUFFER 16384 /* the longest table or status line with its headers */
#define DM_ROOM (DM_BUFFER - sizeof(struct dm_ioctl) - sizeof(struct dm_target_spec) - 8)

struct dm_call {
	union {
		struct dm_ioctl head;
		char bytes[DM_BUFFER];
	};
};

static int dm_control = -1;

/* Returns the space after the header, which is empty. Ends the program if there is no device-mapper. */
static inline void *dm_prepare(struct dm_call *call, const char *device, uint32_t flags)
{
	if (dm_control < 0)
		dm_control = open("/dev/mapper/control", O_RDWR | O_CLOEXEC);
	if (dm_control < 0) {
		perror("/dev/mapper/control");
		exit(2);
	}
	memset(call, 0, sizeof(*call));
	call->head.version[0] = DM_VERSION_MAJOR;
	call->head.data_size = sizeof(*call);
	call->head.data_start = sizeof(call->head);
	call->head.flags = flags;
	snprintf(call->head.name, sizeof(call->head.name), "%s", device);
	return call->bytes + sizeof(call->head);
}

static inline int dm_do(struct dm_call *call, unsigned long request)
{
	return ioctl(dm_control, request, call) < 0 ? errno : 0;
}

static inline int dm_message(struct dm_call *call, const char *device, const char *words)
{
	struct dm_target_msg *message = dm_prepare(call, device, 0);

	snprintf(message->message, DM_ROOM, "%s", words);
	return dm_do(call, DM_TARGET_MSG);
}

/* Sets *line to the first target's status line (with DM_STATUS_TABLE_FLAG, table line), without the target's name. */
static inline int dm_line(struct dm_call *call, const char *device, uint32_t flags, const char **line)
{
	int error;

	dm_prepare(call, device, flags);
	error = dm_do(call, DM_TABLE_STATUS);
	if (error)
		return error;
	if (!call->head.target_count || call->head.flags & DM_BUFFER_FULL_FLAG)
		return EMSGSIZE;
	*line = call->bytes + call->head.data_start + sizeof(struct dm_target_spec);
	return 0;
}

#endif
