from lab import *
nft=sys.argv[1]
tcp_server('127.0.0.1',8080,'A'); tcp_server('::1',8080,'A6',socket.AF_INET6); tcp_server('127.0.0.1',19000,'P'); tcp_server('::1',19000,'P6',socket.AF_INET6)
tcp_server('0.0.0.0',8081,'B'); tcp_server('0.0.0.0',19002,'PB')
tcp_server('10.9.0.3',8082,'C'); tcp_server('10.9.0.3',19003,'PC')
udp_server('127.0.0.53',53,'D',socket.AF_INET); udp_server('127.0.0.53',19001,'PD',socket.AF_INET)
def show(t):
    print(t)
    for a,p in (('127.0.0.1',8080),('127.0.0.2',8080),('10.9.0.1',8080),('::1',8080),('127.0.0.1',8081),('10.9.0.3',8081),('10.9.0.3',8082),('10.9.0.1',8082)): print('  ',a,p,tcp(a,p),'| marked',tcp(a,p,MARK))
    print('   udp', udp('127.0.0.53',53), '| marked', udp('127.0.0.53',53,MARK))
    sys.stdout.flush()
    subprocess.run(['ip','netns','exec','out','python3','-c','''
import sys; sys.path.insert(0,"/tmp/nftx")
from lab import *
for a,p in (("10.9.0.1",8080),("10.9.0.1",8081),("10.9.0.3",8081),("10.9.0.3",8082),("10.9.0.1",8082)): print("  outside",a,p,tcp(a,p))
'''])
show('before')
subprocess.run([nft,'-f','rules2'],check=True)
show('taken')
subprocess.run([nft,'list','table','inet','choirmaster'])
