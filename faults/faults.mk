# The fault bench. The variables are explained in faults/doc.go; each part prints its seed. What a part finds goes to the file that
# ORCAS_FAULTS_RESULTS names; faults-report makes docs/reliability.md of it.
FAULTS_PARTS := faults-crash faults-reclaim faults-space faults-power faults-cache faults-sweep faults-sweep-sealed faults-full-disk faults-model faults-start faults-readback faults-mutants
FAULTS_LOG   ?= bin/faults.log
# A part goes on printing while it runs, and leaves its output for the list of what could not be tried.
FAULTS_TEST   = go test -count=1 -v -timeout 8h
FAULTS_TEE    = { mkdir -p $(dir $(FAULTS_LOG)) && tee -a $(FAULTS_LOG); }

# Where the machine allows everything, a part that cannot run fails; elsewhere it is left out, and named at the end.
FAULTS_REQUIRED = if bash faults/probe.sh >/dev/null 2>&1; then export ORCAS_FAULTS_REQUIRED=$${ORCAS_FAULTS_REQUIRED:-1}; fi

.PHONY: faults faults-short faults-report faults-tools $(FAULTS_PARTS)

faults-short: faults-tools ## the fault bench in about 15 minutes: every part, at the counts that each change has to pass
	@rm -f $(FAULTS_LOG)
	@$(FAULTS_REQUIRED); status=0; ORCAS_FAULTS_SCRIPTS=put,start-after-crash,equal/11,compaction/11,snapshot/11,reclaim-large/11,rebuild/27,backup/23 \
	ORCAS_FAULTS_SEALED=rotate/11,compaction/43 $(MAKE) -k $(FAULTS_PARTS) || status=1; \
	$(MAKE) -s faults-untried; exit $$status

faults: faults-tools ## the fault bench for hours: 300 kills, 200 power cuts, every point of every sweep; writes docs/reliability.md
	@rm -f $(FAULTS_LOG) faults/results.jsonl
	@$(FAULTS_REQUIRED); export ORCAS_FAULTS_RESULTS=$(CURDIR)/faults/results.jsonl; \
	export ORCAS_FAULTS_SOAK=$${ORCAS_FAULTS_SOAK:-600} ORCAS_FAULTS_CRASH=$${ORCAS_FAULTS_CRASH:-300} ORCAS_FAULTS_TERM=$${ORCAS_FAULTS_TERM:-50} ORCAS_FAULTS_POWER=$${ORCAS_FAULTS_POWER:-90} ORCAS_FAULTS_POWER_RECLAIM=$${ORCAS_FAULTS_POWER_RECLAIM:-50} ORCAS_FAULTS_POWER_RELAXED=$${ORCAS_FAULTS_POWER_RELAXED:-50} ORCAS_FAULTS_VOLATILE=$${ORCAS_FAULTS_VOLATILE:-50}; \
	status=0; $(MAKE) -k $(FAULTS_PARTS) || status=1; \
	ORCAS_FAULTS_FS=xfs ORCAS_FAULTS_POWER=10 ORCAS_FAULTS_POWER_RECLAIM=10 $(MAKE) faults-power || status=1; \
	$(MAKE) faults-report || status=1; $(MAKE) -s faults-untried; exit $$status

faults-crash: ## 30 cycles of SIGKILL and 5 of SIGTERM under load: nothing acknowledged is lost
	ORCAS_FAULTS_CRASH=$${ORCAS_FAULTS_CRASH:-30} ORCAS_FAULTS_TERM=$${ORCAS_FAULTS_TERM:-5} ORCAS_FAULTS_READY=$${ORCAS_FAULTS_READY:-5} \
	ORCAS_FAULTS_RATE=$${ORCAS_FAULTS_RATE:-200} $(FAULTS_TEST) ./faults -run '^(TestKill|TestTerm)$$' | $(FAULTS_TEE)

faults-reclaim: ## a minute of overwriting, deleting and reclaiming, with SIGKILL at random and at each step of a round
	ORCAS_FAULTS_SOAK=$${ORCAS_FAULTS_SOAK:-60} ORCAS_FAULTS_READY=$${ORCAS_FAULTS_READY:-5} \
	$(FAULTS_TEST) ./faults -run '^TestReclaimSoak$$' | $(FAULTS_TEE)

faults-space: ## 10,000 objects of 4 KiB overwritten 20 times: the room that they take, and what reclaim takes from the load
	ORCAS_FAULTS_SPACE=$${ORCAS_FAULTS_SPACE:-10000} ORCAS_FAULTS_SPACE_TURNS=$${ORCAS_FAULTS_SPACE_TURNS:-3} \
	$(FAULTS_TEST) ./faults -run '^(TestSpace|TestSpaceCosts)$$' | $(FAULTS_TEE)

faults-power: faults-tools ## 10 power cuts under load, and 10 that forget names too; 5 of each with reclaim, and relaxed (needs root)
	ORCAS_FAULTS_POWER=$${ORCAS_FAULTS_POWER:-10} ORCAS_FAULTS_POWER_RECLAIM=$${ORCAS_FAULTS_POWER_RECLAIM:-5} ORCAS_FAULTS_READY=$${ORCAS_FAULTS_READY:-5} \
	ORCAS_FAULTS_POWER_RELAXED=$${ORCAS_FAULTS_POWER_RELAXED:-5} \
	$(FAULTS_TEST) ./faults -run '^TestPowerCut(Reclaim|Relaxed)?$$' | $(FAULTS_TEE)

faults-cache: faults-tools ## 10 power cuts of a drive with a write cache: lost, reordered and torn writes (needs root and /dev/fuse)
	ORCAS_FAULTS_VOLATILE=$${ORCAS_FAULTS_VOLATILE:-10} ORCAS_FAULTS_READY=$${ORCAS_FAULTS_READY:-5} \
	$(FAULTS_TEST) ./faults -run '^TestVolatileCache$$' | $(FAULTS_TEE)

faults-sweep: ## a fault at every file operation of the scripts ORCAS_FAULTS_SCRIPTS=all (needs /dev/fuse)
	ORCAS_FAULTS_FULL=1 $(FAULTS_TEST) ./faults/iofault | $(FAULTS_TEE)

faults-sweep-sealed: ## the same with everything compressed and encrypted, and with a rotation of keys: the scripts ORCAS_FAULTS_SEALED=all (needs /dev/fuse)
	ORCAS_FAULTS_FULL=1 ORCAS_FAULTS_SCRIPTS=$(ORCAS_FAULTS_SEALED) ORCAS_FAULTS_COMPRESSION=better ORCAS_FAULTS_ENCRYPTION=1 \
	$(FAULTS_TEST) ./faults/iofault -run '^TestSweep$$' | $(FAULTS_TEE)

faults-full-disk: faults-tools ## a small drive without a byte, or an inode, left (needs root)
	ORCAS_FAULTS_FULL=1 $(FAULTS_TEST) ./faults -run '^TestFullDisk$$' | $(FAULTS_TEE)

faults-model: ## random sequences, histories, races, bit flips and clock steps against models
	ORCAS_FAULTS_FULL=1 $(FAULTS_TEST) -tags poison ./faults/model | $(FAULTS_TEE)

faults-start: ## 100,000 objects: the start after a SIGKILL, and after the loss of the database
	ORCAS_FAULTS_START=$${ORCAS_FAULTS_START:-100000} ORCAS_FAULTS_READY=$${ORCAS_FAULTS_READY:-10} $(FAULTS_TEST) ./faults -run '^TestUncleanStart$$' | $(FAULTS_TEE)

faults-readback: ## 64 writers, 20,000 objects of 0 to 70,000 bytes, every one read back and compared
	ORCAS_FAULTS_READBACK=$${ORCAS_FAULTS_READBACK:-20000} $(FAULTS_TEST) ./faults -run '^TestReadBack$$' | $(FAULTS_TEE)

faults-mutants: faults-tools ## builds without one guard each: the bench must find every one (needs root)
	ORCAS_FAULTS_MUTANTS=$${ORCAS_FAULTS_MUTANTS:-all} $(FAULTS_TEST) ./faults -run '^TestMutants$$' | $(FAULTS_TEE)

faults-report: ## make docs/reliability.md of faults/results.jsonl
	go run ./faults/report

faults-untried:
	@if grep -q 'NOT TESTED\|NOT TRIED' $(FAULTS_LOG); then \
		echo "=== NOT TRIED, SO NOTHING IS KNOWN ABOUT IT:"; grep -h 'NOT TESTED\|NOT TRIED' $(FAULTS_LOG) | sort | uniq -c; \
	fi

# What makes the images of the power cuts and of the small disks.
faults-tools: cc
	@for tool in mkfs.ext4 mkfs.btrfs mkfs.xfs; do \
		if ! command -v $$tool >/dev/null; then \
			if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
				apt-get update -qq && apt-get install -y -qq e2fsprogs btrfs-progs xfsprogs; break; \
			fi; \
			echo "WITHOUT $$tool (and root) power cuts and small disks cannot be tried" >&2; \
		fi; \
	done
