// Command vcsim is VMware's own simulator of an ESXi host's API (govmomi's package simulator) with what a test needs:
// power changes are told to whoever started it, who puts a real guest behind each machine.
//
// On standard output, JSON lines: first {"event":"ready","url":...}, then one line for each power change (on, suspend,
// resume, off) and for each destroyed machine (remove), with the machine as it is configured. The API's task goes on
// once a line came in on standard input. It ends when standard input does.
package main

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net/url"
	"os"
	"reflect"
	"strings"
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/simulator/esx"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// nic is one network adapter: its model as the API's type has it (VirtualVmxnet3), its address, its port group.
type nic struct {
	Model   string `json:"model"`
	Mac     string `json:"mac"`
	Network string `json:"network"`
}

// serial is one serial port: to a file of a datastore (a path of this machine), or to a URI.
type serial struct {
	File      string `json:"file,omitempty"`
	URI       string `json:"uri,omitempty"`
	Direction string `json:"direction,omitempty"`
}

// cdrom is one CD-ROM drive: its number on its controller, and a file of a datastore (a path of this machine).
type cdrom struct {
	Unit int32  `json:"unit"`
	File string `json:"file"`
}

// disk is one disk: its controller's model as the API's type has it (VirtualAHCIController), its number there, and its
// descriptor on a datastore (a path of this machine).
type disk struct {
	Controller string `json:"controller"`
	Unit       int32  `json:"unit"`
	File       string `json:"file"`
}

// machine is what a mock for the hypervisor needs to know of a virtual machine.
type machine struct {
	Name     string   `json:"name"`
	MemoryMB int32    `json:"memory_mib"`
	CPUs     int32    `json:"cpus"`
	Nics     []nic    `json:"nics"`
	Serials  []serial `json:"serials"`
	Cdroms   []cdrom  `json:"cdroms"`
	Disks    []disk   `json:"disks"`
}

type event struct {
	Event   string   `json:"event"`
	URL     string   `json:"url,omitempty"`
	Machine *machine `json:"machine,omitempty"`
}

// teller hands events out, one at a time, and waits until each was taken; ended is closed with standard input.
type teller struct {
	sync.Mutex
	answers chan struct{}
	ended   chan struct{}
}

func (t *teller) listen() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		t.answers <- struct{}{}
	}
	close(t.ended)
}

func (t *teller) tell(e event) {
	t.Lock()
	defer t.Unlock()
	line, err := json.Marshal(e)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(line))
	select {
	case <-t.answers:
	case <-t.ended:
	}
}

// watcher is told of every change in the inventory.
type watcher struct {
	teller    *teller
	datastore func(string) string
	states    sync.Map
	known     sync.Map
}

func (w *watcher) Reference() types.ManagedObjectReference {
	return types.ManagedObjectReference{Type: "VirtollWatcher", Value: "virtoll-watcher"}
}

func (w *watcher) PutObject(*simulator.Context, mo.Reference) {}

func (w *watcher) UpdateObject(_ *simulator.Context, object mo.Reference, changes []types.PropertyChange) {
	vm, ok := object.(*mo.VirtualMachine)
	if !ok {
		return
	}
	for _, change := range changes {
		if change.Name != "runtime.powerState" {
			continue
		}
		found := w.describe(vm)
		before, _ := w.states.Swap(vm.Self, vm.Runtime.PowerState)
		w.known.Store(vm.Self, found)
		name := map[types.VirtualMachinePowerState]string{
			types.VirtualMachinePowerStatePoweredOn:  "on",
			types.VirtualMachinePowerStatePoweredOff: "off",
			types.VirtualMachinePowerStateSuspended:  "suspend",
		}[vm.Runtime.PowerState]
		if name == "on" && before == types.VirtualMachinePowerStateSuspended {
			name = "resume"
		}
		w.teller.tell(event{Event: name, Machine: found})
	}
}

func (w *watcher) RemoveObject(_ *simulator.Context, reference types.ManagedObjectReference) {
	if found, ok := w.known.LoadAndDelete(reference); ok {
		w.states.Delete(reference)
		w.teller.tell(event{Event: "remove", Machine: found.(*machine)})
	}
}

func (w *watcher) describe(vm *mo.VirtualMachine) *machine {
	found := &machine{Name: vm.Name, MemoryMB: vm.Config.Hardware.MemoryMB, CPUs: vm.Config.Hardware.NumCPU}
	controllers := map[int32]string{}
	for _, device := range vm.Config.Hardware.Device {
		controllers[device.GetVirtualDevice().Key] = typeName(device)
	}
	for _, device := range vm.Config.Hardware.Device {
		switch it := device.(type) {
		case types.BaseVirtualEthernetCard:
			card := it.GetVirtualEthernetCard()
			network := ""
			if backing, ok := card.Backing.(*types.VirtualEthernetCardNetworkBackingInfo); ok {
				network = backing.DeviceName
			}
			found.Nics = append(found.Nics, nic{typeName(device), card.MacAddress, network})
		case *types.VirtualSerialPort:
			switch backing := it.Backing.(type) {
			case *types.VirtualSerialPortFileBackingInfo:
				found.Serials = append(found.Serials, serial{File: w.datastore(backing.FileName)})
			case *types.VirtualSerialPortURIBackingInfo:
				found.Serials = append(found.Serials, serial{URI: backing.ServiceURI, Direction: backing.Direction})
			}
		case *types.VirtualCdrom:
			if backing, ok := it.Backing.(*types.VirtualCdromIsoBackingInfo); ok {
				found.Cdroms = append(found.Cdroms, cdrom{unit(it.UnitNumber), w.datastore(backing.FileName)})
			}
		case *types.VirtualDisk:
			if backing, ok := it.Backing.(*types.VirtualDiskFlatVer2BackingInfo); ok {
				controller := controllers[it.ControllerKey]
				found.Disks = append(found.Disks, disk{controller, unit(it.UnitNumber), w.datastore(backing.FileName)})
			}
		}
	}
	return found
}

// typeName is a device's type as the API names it.
func typeName(device types.BaseVirtualDevice) string {
	return reflect.TypeOf(device).Elem().Name()
}

// unit is a device's number on its controller, -1 where it has none.
func unit(number *int32) int32 {
	if number == nil {
		return -1
	}
	return *number
}

// switches keeps what the simulator's own network system forgets: a switch's specification, and who has an uplink.
type switches struct {
	*simulator.HostNetworkSystem
}

func (s *switches) AddVirtualSwitch(request *types.AddVirtualSwitch) soap.HasFault {
	var uplinks []string
	if request.Spec != nil {
		if bond, ok := request.Spec.Bridge.(*types.HostVirtualSwitchBondBridge); ok {
			uplinks = bond.NicDevice
		}
	}
	for _, other := range s.NetworkInfo.Vswitch {
		for _, key := range other.Pnic {
			for _, uplink := range uplinks {
				if strings.HasSuffix(key, "-"+uplink) {
					fault := &types.ResourceInUse{Type: "PhysicalNic", Name: uplink}
					return &methods.AddVirtualSwitchBody{Fault_: simulator.Fault("", fault)}
				}
			}
		}
	}
	answer := s.HostNetworkSystem.AddVirtualSwitch(request)
	if answer.Fault() == nil && request.Spec != nil {
		made := &s.NetworkInfo.Vswitch[len(s.NetworkInfo.Vswitch)-1]
		made.Spec = *request.Spec
		for _, uplink := range uplinks {
			made.Pnic = append(made.Pnic, "key-vim.host.PhysicalNic-"+uplink)
		}
	}
	return answer
}

func main() {
	address := flag.String("listen", "127.0.0.1:0", "where the API is served")
	user := flag.String("user", "root", "the only user")
	password := flag.String("password", "secret", "and the password")
	free := flag.Int64("free", 0, "free bytes of the datastore; 0: as many as the simulator says")
	faults := flag.String("faults", "", "methods that always fail: METHOD=FAULT,...")
	flag.Parse()
	log.SetOutput(os.Stderr)
	pnics := esx.HostConfigInfo.Network.Pnic
	for number := len(pnics); number < 5; number++ {
		device := fmt.Sprintf("vmnic%d", number)
		more := types.PhysicalNic{Key: "key-vim.host.PhysicalNic-" + device, Device: device, Mac: "00:50:56:00:00:0" + device[5:]}
		esx.HostConfigInfo.Network.Pnic = append(esx.HostConfigInfo.Network.Pnic, more)
	}
	model := simulator.ESX()
	model.Machine = 1
	if err := model.Create(); err != nil {
		log.Fatal(err)
	}
	defer model.Remove()
	registry := model.Map()
	for _, object := range registry.AllReference("HostNetworkSystem") {
		system := object.(*simulator.HostNetworkSystem)
		system.NetworkInfo.Vswitch = system.Host.Config.Network.Vswitch
		system.NetworkInfo.Pnic = system.Host.Config.Network.Pnic
		registry.Put(&switches{system})
	}
	store := registry.Any("Datastore").(*simulator.Datastore)
	if *free > 0 {
		store.Summary.FreeSpace = *free
	}
	known := map[string]types.BaseMethodFault{
		"RestrictedVersion": new(types.RestrictedVersion),
		"NoPermission":      &types.NoPermission{PrivilegeId: "VirtualMachine.Inventory.Create"},
		"SystemError":       &types.SystemError{Reason: "told to fail"},
	}
	for _, rule := range strings.FieldsFunc(*faults, func(r rune) bool { return r == ',' }) {
		method, name, _ := strings.Cut(rule, "=")
		fault, ok := known[name]
		if !ok {
			log.Fatalf("no such fault: %s", name)
		}
		model.Service.AddFaultRule(&simulator.FaultInjectionRule{
			MethodName: method, ObjectType: "*", ObjectName: "*", Probability: 1, Enabled: true,
			FaultType: simulator.FaultTypeCustom, Fault: fault, Message: name,
		})
	}
	model.Service.TLS = new(tls.Config)
	model.Service.Listen = &url.URL{Host: *address, User: url.UserPassword(*user, *password)}
	server := model.Service.NewServer()
	defer server.Close()
	told := &teller{answers: make(chan struct{}), ended: make(chan struct{})}
	go told.listen()
	path := func(name string) string {
		_, rest, _ := strings.Cut(name, "] ")
		return store.Summary.Url + "/" + rest
	}
	registry.AddHandler(&watcher{teller: told, datastore: path})
	told.tell(event{Event: "ready", URL: server.URL.Host})
	<-told.ended
}
