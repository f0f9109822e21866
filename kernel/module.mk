# SPDX-License-Identifier: GPL-2.0-only
# Builds the module of the directory that includes this file, for one kernel, in a directory of its own, so that builds for
# several kernels keep apart. PLACE is where below build/kernel/<release> that is.
#
# Type information for BPF is left out where pahole is missing.
KDIR ?= /lib/modules/$(shell uname -r)/build
RELEASE := $(shell sed -n 's/.*UTS_RELEASE "\(.*\)"/\1/p' $(KDIR)/include/generated/utsrelease.h 2>/dev/null)
OUT ?= $(abspath ../../build/kernel)/$(RELEASE)$(PLACE)

.PHONY: modules clean
modules:
	@test -n "$(RELEASE)" || { echo "KDIR=$(KDIR) holds no kernel to build for (install linux-headers)"; exit 1; }
	@mkdir -p $(OUT)/core
	@cp -pu *.c *.h Kbuild $(OUT)
	@cp -pu ../../core/*.c ../../core/*.h ../../core/UNITS $(OUT)/core
	@$(MAKE) --no-print-directory -C $(KDIR) M=$(OUT) $(if $(shell which pahole),,CONFIG_DEBUG_INFO_BTF_MODULES=) modules

clean:
	rm -rf $(OUT)
