# Fault injection. faults/doc.go explains the variables; each part prints its seed. Results are appended to the file
# named by ORCAS_FAULTS_RESULTS; faults-report generates docs/reliability.md from it.
FAULTS_PARTS := faults-crash faults-reclaim faults-space faults-power faults-cache faults-sweep faults-sweep-sealed faults-full-disk faults-slow-readers faults-memory faults-model faults-start faults-readback faults-mutants
FAULTS_LOG   ?= bin/faults.log
# The output of each part is shown, and also kept, to list the parts that could not be tested.
FAULTS_TEST   = go test -count=1 -v -timeout 8h
FAULTS_TEE    = { mkdir -p $(dir $(FAULTS_LOG)) && tee -a $(FAULTS_LOG); }

# If the machine supports every part, a part that cannot run fails; otherwise it is skipped, and listed at the end.
FAULTS_REQUIRED = if bash faults/probe.sh >/dev/null 2>&1; then export ORCAS_FAULTS_REQUIRED=$${ORCAS_FAULTS_REQUIRED:-1}; fi

.PHONY: faults faults-short faults-report faults-tools $(FAULTS_PARTS)

# The counts of faults-short. The strides are odd: the way in which a run of a script ends depends on its operation modulo 4.
FAULTS_COUNTS := ORCAS_FAULTS_MEMORY=25 ORCAS_FAULTS_CRASH=15 ORCAS_FAULTS_TERM=3 ORCAS_FAULTS_SOAK=30 ORCAS_FAULTS_SPACE_TURNS=0 ORCAS_FAULTS_VOLATILE=5 \
	ORCAS_FAULTS_POWER=5 ORCAS_FAULTS_POWER_RECLAIM=3 ORCAS_FAULTS_POWER_RELAXED=3 ORCAS_FAULTS_HISTORIES=300 ORCAS_FAULTS_SEQUENCES=700 \
	ORCAS_FAULTS_SCRIPTS=put/3/7,start-after-crash/5/29,equal/23,compaction/43/87,snapshot/43/87,delta/87/175,reclaim-large/43,rebuild/53/107,rebuild-chain/87/175,backup/43 \
	ORCAS_FAULTS_SEALED=rotate/43/87,compaction/87

faults-short: faults-tools ## inject faults for about 17 minutes: every part, with the counts that each change must pass
	@rm -f $(FAULTS_LOG)
	@$(FAULTS_REQUIRED); export $(FAULTS_COUNTS); status=0; bash faults/memory.sh $(MAKE) -k $(FAULTS_PARTS) || status=1; \
	$(MAKE) -s faults-untried; exit $$status

faults: faults-tools ## inject faults for hours: 300 kills, 200 power cuts, every point of every sweep; writes docs/reliability.md
	@rm -f $(FAULTS_LOG) faults/results.jsonl
	@$(FAULTS_REQUIRED); export ORCAS_FAULTS_RESULTS=$(CURDIR)/faults/results.jsonl; \
	export ORCAS_FAULTS_READY=$${ORCAS_FAULTS_READY:-5} ORCAS_FAULTS_RATE=$${ORCAS_FAULTS_RATE:-200}; \
	export ORCAS_FAULTS_SOAK=$${ORCAS_FAULTS_SOAK:-600} ORCAS_FAULTS_IDENTITIES=$${ORCAS_FAULTS_IDENTITIES:-50} ORCAS_FAULTS_OVERWRITES=$${ORCAS_FAULTS_OVERWRITES:-600} ORCAS_FAULTS_CRASH=$${ORCAS_FAULTS_CRASH:-300} ORCAS_FAULTS_TERM=$${ORCAS_FAULTS_TERM:-50} ORCAS_FAULTS_POWER=$${ORCAS_FAULTS_POWER:-90} ORCAS_FAULTS_POWER_RECLAIM=$${ORCAS_FAULTS_POWER_RECLAIM:-50} ORCAS_FAULTS_POWER_RELAXED=$${ORCAS_FAULTS_POWER_RELAXED:-50} ORCAS_FAULTS_VOLATILE=$${ORCAS_FAULTS_VOLATILE:-50}; \
	status=0; $(MAKE) -k $(FAULTS_PARTS) || status=1; \
	ORCAS_FAULTS_FS=xfs ORCAS_FAULTS_POWER=10 ORCAS_FAULTS_POWER_RECLAIM=10 $(MAKE) faults-power || status=1; \
	$(MAKE) faults-report || status=1; $(MAKE) -s faults-untried; exit $$status

faults-crash: ## kill the server 30 times and stop it 5 times under load: no acknowledged write may be lost
	ORCAS_FAULTS_CRASH=$${ORCAS_FAULTS_CRASH:-30} ORCAS_FAULTS_TERM=$${ORCAS_FAULTS_TERM:-5} ORCAS_FAULTS_IDENTITIES=$${ORCAS_FAULTS_IDENTITIES:-5} \
	$(FAULTS_TEST) ./faults -run '^(TestKill|TestTerm|TestIdentities|TestBenchFindsLies)$$' | $(FAULTS_TEE)

faults-reclaim: ## overwrite, delete and reclaim for a minute, with SIGKILL at random times and at each step of a round
	ORCAS_FAULTS_SOAK=$${ORCAS_FAULTS_SOAK:-60} \
	$(FAULTS_TEST) ./faults -run '^TestReclaimSoak$$' | $(FAULTS_TEE)

faults-space: ## overwrite 10,000 objects of 4 KiB 20 times, and measure their space and how much reclaim slows the load
	ORCAS_FAULTS_SPACE=$${ORCAS_FAULTS_SPACE:-10000} ORCAS_FAULTS_SPACE_TURNS=$${ORCAS_FAULTS_SPACE_TURNS:-3} \
	$(FAULTS_TEST) ./faults -run '^(TestSpace|TestSpaceCosts)$$' | $(FAULTS_TEE)

faults-power: faults-tools ## cut the power 10 times under load, and 10 times losing unsynced file names; 5 times each with reclaim and with relaxed durability (needs root)
	ORCAS_FAULTS_POWER=$${ORCAS_FAULTS_POWER:-10} ORCAS_FAULTS_POWER_RECLAIM=$${ORCAS_FAULTS_POWER_RECLAIM:-5} \
	ORCAS_FAULTS_POWER_RELAXED=$${ORCAS_FAULTS_POWER_RELAXED:-5} \
	$(FAULTS_TEST) ./faults -run '^TestPowerCut' | $(FAULTS_TEE)

faults-cache: faults-tools ## cut the power of a drive with a write cache 10 times: lost, reordered and torn writes (needs root and /dev/fuse)
	ORCAS_FAULTS_VOLATILE=$${ORCAS_FAULTS_VOLATILE:-10} \
	$(FAULTS_TEST) ./faults -run '^TestVolatileCache$$' | $(FAULTS_TEE)

faults-sweep: ## fail every file operation of the scripts ORCAS_FAULTS_SCRIPTS=all (needs /dev/fuse)
	ORCAS_FAULTS_FULL=1 $(FAULTS_TEST) ./faults/iofault -run '^TestSweep' | $(FAULTS_TEE)

faults-sweep-sealed: ## the same with compression, encryption and key rotation: the scripts ORCAS_FAULTS_SEALED=all (needs /dev/fuse)
	ORCAS_FAULTS_FULL=1 ORCAS_FAULTS_SCRIPTS=$(ORCAS_FAULTS_SEALED) ORCAS_FAULTS_COMPRESSION=better ORCAS_FAULTS_ENCRYPTION=1 \
	$(FAULTS_TEST) ./faults/iofault -run '^TestSweep$$' | $(FAULTS_TEE)

faults-full-disk: faults-tools ## fill a small drive to the last byte or the last inode (needs root)
	ORCAS_FAULTS_FULL=1 $(FAULTS_TEST) ./faults -run '^TestFullDisk$$' | $(FAULTS_TEE)

faults-slow-readers: faults-tools ## overwrite one key 200 times on a small drive while 1,001 clients read slowly (needs root)
	ORCAS_FAULTS_OVERWRITES=$${ORCAS_FAULTS_OVERWRITES:-200} $(FAULTS_TEST) ./faults -run '^TestSlowReaders$$' | $(FAULTS_TEE)

faults-memory: ## load a server that has 256 MiB, and one that has 128 MiB, with 64 uploads of 100 MiB, small writes, 1,000 slow readers and a scrub (needs control groups)
	ORCAS_FAULTS_MEMORY=$${ORCAS_FAULTS_MEMORY:-100} $(FAULTS_TEST) ./faults -run '^TestMemory$$' | $(FAULTS_TEE)

faults-model: ## compare random sequences, histories, races, bit flips and clock steps with models
	ORCAS_FAULTS_FULL=1 $(FAULTS_TEST) -tags poison ./faults/model | $(FAULTS_TEE)

faults-start: ## start with 100,000 objects after a SIGKILL and after the loss of the database
	ORCAS_FAULTS_START=$${ORCAS_FAULTS_START:-100000} ORCAS_FAULTS_READY=$${ORCAS_FAULTS_READY:+10} $(FAULTS_TEST) ./faults -run '^TestUncleanStart$$' | $(FAULTS_TEE)

faults-readback: ## write 20,000 objects of 0 to 70,000 bytes with 64 writers, read each back and compare it
	ORCAS_FAULTS_READBACK=$${ORCAS_FAULTS_READBACK:-20000} $(FAULTS_TEST) ./faults -run '^TestReadBack$$' | $(FAULTS_TEE)

faults-mutants: faults-tools ## remove one guard at a time: a test must fail on each such build (needs root)
	ORCAS_FAULTS_MUTANTS=$${ORCAS_FAULTS_MUTANTS:-all} $(FAULTS_TEST) ./faults -run '^TestMutants$$' | $(FAULTS_TEE)

faults-report: ## generate docs/reliability.md from faults/results.jsonl
	go run ./faults/report

faults-untried:
	@if grep -q 'NOT TESTED' $(FAULTS_LOG); then \
		echo "=== NOT TESTED ON THIS MACHINE:"; grep -h 'NOT TESTED' $(FAULTS_LOG) | sort | uniq -c; \
	fi

# The programs that create the images for power cuts and small disks.
faults-tools: cc
	@for tool in mkfs.ext4 mkfs.btrfs mkfs.xfs; do \
		if ! command -v $$tool >/dev/null; then \
			if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
				echo "$$tool is missing: installing e2fsprogs btrfs-progs xfsprogs with apt-get" >&2; \
				apt-get update -qq && apt-get install -y -qq e2fsprogs btrfs-progs xfsprogs; break; \
			fi; \
			echo "$$tool is missing: power cuts and small disks, which also need root, cannot be tested" >&2; \
		fi; \
	done
